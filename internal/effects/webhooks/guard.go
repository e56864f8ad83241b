package webhooks

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"

	"orderonce/internal/fault"
)

const maxURL = 2048

// Guard keeps deliveries away from what a tenant must not reach through this service: the machine itself, its network,
// and whoever gives out credentials to those inside.
type Guard struct {
	// AllowPrivate opens all addresses, and plain HTTP: for development, and for receivers in the operator's own network.
	AllowPrivate bool
}

// errNotPublic is about an address, and names none: what a name resolves to in here is nobody's business out there.
var errNotPublic = errors.New("its address is not on the public internet")

// CheckURL returns fault.ValidationFailed for what is no URL to deliver to. A host name passes: what it leads to is
// judged when a connection is made, and anew for each.
func (g Guard) CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return fault.Invalid("/url", fmt.Sprintf("must have at most %d bytes", maxURL))
	case err != nil || u.Hostname() == "":
		return fault.Invalid("/url", "must be an absolute URL")
	case u.Scheme != "https" && (u.Scheme != "http" || !g.AllowPrivate):
		return fault.Invalid("/url", "must begin with https://")
	case u.User != nil:
		return fault.Invalid("/url", "must not hold credentials: deliveries are signed")
	case u.Fragment != "":
		return fault.Invalid("/url", "must not have a fragment")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fault.Invalid("/url", "must have a port between 1 and 65535")
		}
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !g.allows(addr) {
		return fault.Invalid("/url", "must not lead to a private address")
	}
	return nil
}

// control judges a connection's own address, after all names were resolved and before a packet leaves. A name that
// resolves to something else a moment later, or to several things, gains nothing.
func (g Guard) control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return errNotPublic
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !g.allows(addr) {
		return errNotPublic
	}
	return nil
}

func (g Guard) allows(addr netip.Addr) bool { return g.AllowPrivate || public(addr) }

// public says whether an address is an ordinary one of the internet.
func public(addr netip.Addr) bool {
	if addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap() // ::ffff:10.0.0.1 is 10.0.0.1
	if addr.Is6() && !unicast6.Contains(addr) {
		return false
	}
	for _, special := range notPublic {
		if special.Contains(addr) {
			return false
		}
	}
	return true
}

// unicast6 is all of IPv6 that is given out to anybody. Loopback, unique local, link-local, multicast, the IPv4 addresses
// in ::/96 and those of a NAT64 in 64:ff9b::/96 and 64:ff9b:1::/48 lie outside.
var unicast6 = netip.MustParsePrefix("2000::/3")

// notPublic is what IANA's registries of special-purpose addresses (RFC 6890) and of multicast take out.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),         // this network; 0.0.0.0 is this machine
	netip.MustParsePrefix("10.0.0.0/8"),        // private
	netip.MustParsePrefix("100.64.0.0/10"),     // shared by a provider's customers
	netip.MustParsePrefix("127.0.0.0/8"),       // loopback
	netip.MustParsePrefix("169.254.0.0/16"),    // link-local: where clouds give out credentials
	netip.MustParsePrefix("172.16.0.0/12"),     // private
	netip.MustParsePrefix("192.0.0.0/24"),      // protocols' own
	netip.MustParsePrefix("192.0.2.0/24"),      // documentation
	netip.MustParsePrefix("192.31.196.0/24"),   // AS112: answers for private names
	netip.MustParsePrefix("192.52.193.0/24"),   // AMT relays
	netip.MustParsePrefix("192.88.99.0/24"),    // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),    // private
	netip.MustParsePrefix("192.175.48.0/24"),   // AS112
	netip.MustParsePrefix("198.18.0.0/15"),     // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),   // documentation
	netip.MustParsePrefix("203.0.113.0/24"),    // documentation
	netip.MustParsePrefix("224.0.0.0/4"),       // multicast
	netip.MustParsePrefix("240.0.0.0/4"),       // reserved, and broadcast
	netip.MustParsePrefix("2001::/23"),         // protocols' own: Teredo, which holds an IPv4 address, ORCHID, …
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4, which holds an IPv4 address
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}
