package gateway

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/test/shop"
)

// readTimeout is how long the gateway waits for an answer before it asks the next server. It is shorter than a
// duplicate's wait of 2 s, as gateways' time-outs are that nobody has looked at.
const readTimeout = time.Second

// configuration is a gateway that replays everything it can, POST included. One process, so that nothing of it can
// outlive the test; nothing is cached, and a server that failed is asked again at once.
const configuration = `
daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  upstream servers {
%[3]s
  }
  server {
    listen %[2]s;
    location / {
      proxy_pass http://servers;
      proxy_http_version 1.1;
      proxy_next_upstream error timeout http_502 http_503 http_504 non_idempotent;
      proxy_connect_timeout 500ms;
      proxy_send_timeout %[4]dms;
      proxy_read_timeout %[4]dms;
    }
  }
}
`

// nginx is Debian's, found or installed once. A machine without it is no reason to skip: the test would say nothing
// there for ever.
var nginx = sync.OnceValues(func() (string, error) {
	command := exec.Command("../../scripts/nginx.sh")
	var said strings.Builder
	command.Stderr = &said
	path, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, said.String())
	}
	return strings.TrimSpace(string(path)), nil
})

// open starts a gateway in front of the upstream servers, each an address with nginx's options behind it.
func open(t *testing.T, token string, upstreams ...string) *orderoncetest.Client {
	t.Helper()
	binary, err := nginx()
	if err != nil {
		t.Fatal(err)
	}
	dir, address := postgrestest.TempDir(t), freeAddress(t)
	var servers []string
	for _, upstream := range upstreams {
		servers = append(servers, "    server "+upstream+" max_fails=0;")
	}
	text := fmt.Sprintf(configuration, dir, address, strings.Join(servers, "\n"), readTimeout.Milliseconds())
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process := orderoncetest.Start(t, orderoncetest.Command{Binary: binary, Args: []string{"-p", dir, "-c", file}})
	orderoncetest.Poll(t, "nginx to listen", func() bool {
		select {
		case <-process.Ended():
			t.Fatalf("nginx ended: %s", process.Stderr)
		default:
		}
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		return err == nil && connection.Close() == nil
	})
	return orderoncetest.NewClient("http://"+address, token)
}

// freeAddress is one that a server can come back to after its death: below the ports that the kernel gives away by
// itself.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.N(10000))
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err == nil {
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
}

func host(server *shop.Server) string { return strings.TrimPrefix(server.BaseURL, "http://") }

// release lets a server that is held at a fault point go on.
func release(t *testing.T, held string) {
	t.Helper()
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
}
