package service_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// The daemon refuses connections beyond limits.connections with a reason, and serves the others.
func TestConnectionPastTheLimit(t *testing.T) {
	t.Parallel()
	p := processtest.Start(t, t.TempDir(), []string{"URIFILTER_LIMITS_CONNECTIONS=1"})
	var first net.Conn
	for i := range 100 {
		conn, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		status, body := getReady(t, conn)
		switch {
		case i == 0 && status == 200:
			first = conn
		case status == 200:
		case i > 1 && status == 503 && strings.Contains(body, `"error_code":"overloaded"`) && strings.Contains(body, "limits.connections"):
			if status, body := getReady(t, first); status != 200 {
				t.Errorf("on the first connection: %d %s", status, body)
			}
			return
		default:
			t.Fatalf("connection %d: %d %s", i, status, body)
		}
	}
	t.Error("a hundred connections were served, and limits.connections is 1")
}

func getReady(t *testing.T, conn net.Conn) (status int, body string) {
	t.Helper()
	_, _ = fmt.Fprint(conn, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n") // may be closed already
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
