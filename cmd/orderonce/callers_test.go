package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An origin is taken as a browser writes it, or refused: nobody finds out by trying that a listed one never matches.
func TestParseOrigins(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"": nil, " ": nil, "https://shop.example": {"https://shop.example"},
		"https://shop.example, http://localhost:3000 ,https://xn--bcher-kva.example:8443": {
			"https://shop.example", "http://localhost:3000", "https://xn--bcher-kva.example:8443",
		},
		"http://127.0.0.1:5173,http://[::1]:5173,https://a-b.c-d.example": {"http://127.0.0.1:5173", "http://[::1]:5173", "https://a-b.c-d.example"},
		"http://shop.example:443,https://shop.example:80":                 {"http://shop.example:443", "https://shop.example:80"},
	} {
		got, err := parseOrigins(list)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got)\n%s", list, err, diff)
		}
	}
	for _, one := range []string{
		"*", "null", "https://*.shop.example", "https://*", "shop.example", "//shop.example", "https:/shop.example", "https://", "https://shop.example/",
		"https://shop.example/path", "https://shop.example?q", "https://shop.example#f", "https://user@shop.example", "https://Shop.example", "HTTPS://shop.example",
		"https://shop.example:443", "http://shop.example:80", "https://shop.example:", "https://shop.example:0", "https://shop.example:http", "https://shop.example.",
		"https://.example", "https://a..example", "https://shop example", "https://bücher.example", "ftp://shop.example", "file://", "https://[::1", "https://shop.example\n",
		"https://shop.example;https://b.example",
	} {
		origins, err := parseOrigins("https://good.example," + one)
		if one == "https://shop.example\n" { // white space around one is not of it
			if err != nil || len(origins) != 2 {
				t.Errorf("%q: %v %v", one, origins, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), `"`+one+`"`) {
			t.Errorf("%q is taken: %v, %v", one, origins, err)
		}
	}
	for _, list := range []string{",", "https://shop.example,", ",https://shop.example", "https://a.example,,https://b.example"} {
		if _, err := parseOrigins(list); err == nil {
			t.Errorf("%q is taken, though one in it is empty", list)
		}
	}
	if _, err := parseOrigins("*,https://shop.example/,ftp://x"); len(unjoin(err)) != 3 {
		t.Errorf("three mistakes: %v", err)
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"0": 0, "0.5": 0.5, "100": 100, "1e3": 1000, "0.001": 0.001, "1000000": 1e6, "-0": 0} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "many", "-1", "0.0001", "1e-300", "1000001", "Inf", "-Inf", "NaN", "1/s", "10 "} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q is %v, and should be refused", text, got)
		}
	}
}

// What is set holds in the server that runs.
func TestCallersSettingsReachTheServer(t *testing.T) {
	t.Parallel()
	const shop = "https://shop.example"
	d := startDev(t, dataDir(t), "--tenant-rate=0.001", "--tenant-burst=2", "--cors-origins=http://localhost:3000,"+shop)
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		a, err := d.acme.Do(t.Context(), http.MethodGet, "orders", "", http.Header{"Origin": {shop}})
		must(t, err)
		if a.Status != want || a.Header.Get("Access-Control-Allow-Origin") != shop {
			t.Errorf("got %d %v, want %d", a.Status, a.Header, want)
		}
	}
}
