package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	fetchTimeout = 5 * time.Second // both documents together
	maxDocument  = 256 << 10       // bytes; the largest key sets of public providers have some 10 KiB
	maxRedirects = 3
)

func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // its proxy settings are the ones that operators know
	transport.DisableKeepAlives = true                           // two requests in five minutes
	transport.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{Transport: transport, CheckRedirect: sameHost}
}

// sameHost follows the issuer within its own house only: whoever can redirect must not choose whose keys are trusted.
func sameHost(to *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	if len(via) > maxRedirects || to.URL.Scheme != from.Scheme || to.URL.Host != from.Host {
		return errors.New("a redirect to another host, or one too many")
	}
	return nil
}

// fetch asks the issuer for its keys, and where they are before, so that it may move them.
func (i *Issuer) fetch(ctx context.Context) (keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	address := i.config.JWKSURL
	if address == "" {
		var err error
		if address, err = i.discover(ctx); err != nil {
			return nil, fmt.Errorf("discover: %w", err)
		}
	}
	text, err := i.get(ctx, address)
	if err != nil {
		return nil, err
	}
	return parseKeys(text, i.config.Algorithms)
}

func (i *Issuer) discover(ctx context.Context) (string, error) {
	text, err := i.get(ctx, strings.TrimSuffix(i.config.Issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", err
	}
	var document struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return "", fmt.Errorf("read the document: %w", err)
	}
	if document.Issuer != i.config.Issuer {
		return "", fmt.Errorf("it is the document of issuer %q, not of %q", document.Issuer, i.config.Issuer)
	}
	if err := CheckURL(document.JWKSURI); err != nil {
		return "", fmt.Errorf("jwks_uri: %w", err)
	}
	if strings.HasPrefix(i.config.Issuer, "https:") && !strings.HasPrefix(document.JWKSURI, "https:") {
		return "", errors.New("jwks_uri: must be https as the issuer is")
	}
	return document.JWKSURI, nil
}

func (i *Issuer) get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := i.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: status %d", address, response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("more than %d bytes", maxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", address, err)
	}
	return text, nil
}

// CheckURL says what is wrong with the address of a document that decides whom to trust: it must be https, or http on
// this very machine.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return errors.New("must be an absolute URL")
	}
	switch {
	case u.User != nil:
		return errors.New("must hold no user or password")
	case strings.Contains(text, "#"):
		return errors.New("must have no fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return errors.New("must begin with https://, or with http:// and a loopback host")
	}
	return nil
}

// CheckIssuer is CheckURL for an issuer, which by OpenID Connect Discovery 1.0 has no query either.
func CheckIssuer(text string) error {
	if err := CheckURL(text); err != nil {
		return err
	}
	if strings.Contains(text, "?") {
		return errors.New("must have no query")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
