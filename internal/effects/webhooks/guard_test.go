package webhooks_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"orderonce/internal/effects"
	"orderonce/internal/effects/webhooks"
	"orderonce/internal/fault"
)

// ranges has the first and the last address of each range that is not public, and the public ones right beside them.
var ranges = []struct {
	name    string
	private []string
	public  []string
}{
	{"this network", []string{"0.0.0.0", "0.255.255.255"}, []string{"1.0.0.0"}},
	{"private, 10/8", []string{"10.0.0.0", "10.255.255.255"}, []string{"9.255.255.255", "11.0.0.0"}},
	{"CGNAT", []string{"100.64.0.0", "100.127.255.255"}, []string{"100.63.255.255", "100.128.0.0"}},
	{"loopback", []string{"127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"}, []string{"126.255.255.255", "128.0.0.0"}},
	{"link-local", []string{"169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::1", "febf::1"}, []string{"169.253.255.255", "169.255.0.0"}},
	{"private, 172.16/12", []string{"172.16.0.0", "172.31.255.255"}, []string{"172.15.255.255", "172.32.0.0"}},
	{"protocols", []string{"192.0.0.0", "192.0.0.255", "2001::1", "2001:1ff::1"}, []string{"192.0.1.0", "2001:200::1"}},
	{"documentation", []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"}, []string{"192.0.3.0", "2001:db9::1", "3fff:1000::1"}},
	{"AS112 and AMT", []string{"192.31.196.1", "192.52.193.1", "192.175.48.1", "2620:4f:8000::1"}, []string{"192.31.197.1"}},
	{"6to4", []string{"192.88.99.1", "2002:7f00:1::", "2002::"}, []string{"192.88.98.255", "2003::1"}},
	{"private, 192.168/16", []string{"192.168.0.0", "192.168.255.255"}, []string{"192.167.255.255", "192.169.0.0"}},
	{"benchmarks", []string{"198.18.0.0", "198.19.255.255"}, []string{"198.17.255.255", "198.20.0.0"}},
	{"multicast", []string{"224.0.0.1", "239.255.255.255", "ff02::1"}, []string{"223.255.255.255"}},
	{"reserved and broadcast", []string{"240.0.0.0", "255.255.255.255"}, nil},
	{"unspecified", []string{"::"}, nil},
	{"unique local", []string{"fc00::1", "fd12:3456::1", "fdff::1"}, nil},
	{"site-local", []string{"fec0::1"}, nil},
	{"IPv4 inside IPv6", []string{"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"}, []string{"::ffff:1.1.1.1"}},
	{"NAT64", []string{"64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::a00:1"}, nil},
	{"Teredo", []string{"2001:0:4136:e378:8000:63bf:3fff:fdd2"}, nil},
	{"discard", []string{"100::1"}, nil},
	{"segment routing", []string{"5f00::1"}, nil},
	{"with a zone", []string{"fe80::1%lo"}, nil},
}

func TestOnlyPublicAddressesAreAllowed(t *testing.T) {
	t.Parallel()
	for _, r := range ranges {
		for i, text := range append(r.private[:len(r.private):len(r.private)], r.public...) {
			want := i >= len(r.private)
			addr := netip.MustParseAddr(text)
			if got := webhooks.Public(addr); got != want {
				t.Errorf("%s: %s is public: %t, want %t", r.name, text, got, want)
			}
			if addr.Zone() != "" {
				continue
			}
			host := text
			if addr.Is6() {
				host = "[" + text + "]"
			}
			if err := (webhooks.Guard{}).CheckURL("https://" + host + "/hooks"); (err == nil) != want {
				t.Errorf("%s: a URL with %s: %v", r.name, host, err)
			}
		}
	}
}

func TestURLsAreJudged(t *testing.T) {
	t.Parallel()
	for url, allowed := range map[string][2]bool{ // by default, and where private addresses are allowed
		"https://a.example":                              {true, true},
		"https://a.example:8443/hooks/1?token=x%20y":     {true, true},
		"https://bücher.example/":                        {true, true},
		"https://[2606:4700::1]:443/":                    {true, true},
		"http://a.example/":                              {false, true},
		"https://127.0.0.1/":                             {false, true},
		"http://localhost:9000/":                         {false, true},
		"":                                               {},
		"/hooks":                                         {},
		"//a.example/":                                   {},
		"https:///hooks":                                 {},
		"https:a.example":                                {},
		"ftp://a.example/":                               {},
		"file:///etc/passwd":                             {},
		"javascript:alert(1)":                            {},
		"https://user:secret@a.example/":                 {},
		"https://a.example/#fragment":                    {},
		"https://a.example:0/":                           {},
		"https://a.example:65536/":                       {},
		"https://a.example:port/":                        {},
		"https://a.example/\nHost: b.example":            {},
		"https://a.example/\x00":                         {},
		"https://a.exa mple/":                            {},
		"https://a.example/" + strings.Repeat("x", 2048): {},
	} {
		for i, guard := range []webhooks.Guard{{}, {AllowPrivate: true}} {
			err := guard.CheckURL(url)
			if (err == nil) != allowed[i] || err != nil && fault.KindOf(err) != fault.ValidationFailed {
				t.Errorf("%+v: %q: %v", guard, url, err)
			}
		}
	}
}

// resolver answers every question for an address with the next one of its list, and with the last one from then on.
func resolver(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = server.Close(); <-ended })
	var asked atomic.Int32
	go func() {
		defer close(ended)
		packet := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(packet)
			if err != nil {
				return
			}
			var question dnsmessage.Message
			if err := question.Unpack(packet[:n]); err != nil {
				t.Error(err)
				return
			}
			question.Response, question.Additionals = true, nil
			if q := question.Questions[0]; q.Type == dnsmessage.TypeA {
				i := min(int(asked.Add(1)), len(addresses)) - 1
				question.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addresses[i]).As4()},
				}}
			}
			answer, err := question.Pack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = server.WriteTo(answer, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// A name may tell a public address to whoever checks it and a private one to whoever connects: only the connection's own
// address counts.
func TestReboundNameReachesNothingInside(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var reached atomic.Int32
	r := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	r.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			reached.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
	names := resolver(t, "93.184.215.14", "127.0.0.1")
	const host = "rebound.example"
	if found, err := names.LookupHost(t.Context(), host); err != nil || found[0] != "93.184.215.14" {
		t.Fatalf("at the check it is %v, %v", found, err)
	}
	f.subscribe("rebound", "https://"+net.JoinHostPort(host, port))
	d := f.deliveries(webhooks.Config{Resolver: names})
	e := f.one(d)
	got := d.Send(t.Context(), e)
	if got.Verdict != effects.NotExecuted || got.Detail != "its address is not on the public internet" || reached.Load() != 0 {
		t.Errorf("%+v, with %d connections", got, reached.Load())
	}

	// The same name and receiver, were it not for the guard.
	f.exec("UPDATE webhook_subscriptions SET url = replace(url, 'https:', 'http:')")
	if got := f.deliveries(webhooks.Config{Resolver: names, Guard: inside}).Send(t.Context(), e); got.Verdict != effects.Done {
		t.Errorf("allowed: %+v", got)
	}
	// An operator who becomes stricter means the subscriptions that are there as well.
	if got := d.Send(t.Context(), e); got.Verdict != effects.Refused {
		t.Errorf("plain HTTP, not allowed any more: %+v", got)
	}
}

// Each of the ranges, at a real connection.
func TestNoConnectionLeavesForAPrivateAddress(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.subscribe("inside", "https://inside.example/")
	for _, r := range ranges {
		addr := netip.MustParseAddr(r.private[0])
		if !addr.Is4() {
			continue // the resolver above tells IPv4 alone
		}
		d := f.deliveries(webhooks.Config{Resolver: resolver(t, addr.String())})
		if got := d.Send(t.Context(), f.one(d)); got.Detail != "its address is not on the public internet" {
			t.Errorf("%s: %+v", addr, got)
		}
	}
}

// A proxy of the environment would be asked to go where we may not go ourselves.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	proxy := receive(t, nil)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	f := setup(t)
	r := receive(t, nil)
	_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
	f.subscribe("erp", fmt.Sprintf("http://erp.example:%s/", port))
	d := f.deliveries(webhooks.Config{Guard: inside, Resolver: resolver(t, "127.0.0.1")})
	if got := d.Send(t.Context(), f.one(d)); got.Verdict != effects.Done || len(proxy.deliveries()) != 0 || len(r.deliveries()) != 1 {
		t.Errorf("%+v, by way of %d", got, len(proxy.deliveries()))
	}
}

// Over TLS, with the operator's own authority.
func TestDeliveryOverTLS(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := receive(t, nil)
	secure := httptest.NewTLSServer(r.Config.Handler)
	t.Cleanup(secure.Close)
	f.subscribe("erp", secure.URL)
	roots := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	d := f.deliveries(webhooks.Config{Guard: inside, RootCAs: roots})
	if got := d.Send(t.Context(), f.one(d)); got.Verdict != effects.Done {
		t.Errorf("%+v", got)
	}
}
