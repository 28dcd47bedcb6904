package chores

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	l.Close()
	if err := free(t.Context(), filterProgram(), taken); err != nil {
		t.Errorf("free address: %v", err)
	}
	ready := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(ready)
		}
	}))
	defer server.Close()
	taken = server.Listener.Addr().String()
	for status, want := range map[int]string{http.StatusOK: "started already", http.StatusNotFound: "another program"} {
		ready = status
		err := free(t.Context(), filterProgram(), taken)
		if err == nil || !strings.Contains(err.Error(), taken+" is in use") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "\nhint: ") {
			t.Errorf("taken, /readyz answers %d: %v", status, err)
		}
	}
	if err := free(t.Context(), filterProgram(), "nonsense"); err == nil || strings.Contains(err.Error(), "in use") {
		t.Errorf("malformed address: %v", err)
	}
}

func TestReady(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if !ready(t.Context(), server.Listener.Addr().String()) || calls != 3 {
		t.Errorf("ready after %d calls, want 3", calls)
	}
}

func TestCallsToTry(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8000":  " 127.0.0.1:8000/api/v1/filter",
		"0.0.0.0:9000":    " 127.0.0.1:9000/api/v1/filter",
		":9000":           " --server http://127.0.0.1:9000\n",
		"[::]:9000":       " [::1]:9000/api/v1/filter",
		"[::1]:9000":      " [::1]:9000/api/v1/filter",
		"localhost:9000":  " localhost:9000/api/v1/filter",
		"192.0.2.7:18000": " --server http://192.0.2.7:18000\n",
	} {
		if got := filterProgram().calls(listen); !strings.Contains(got, want) {
			t.Errorf("%s: want %q in:\n%s", listen, want, got)
		}
	}
	if got := filterProgram().calls(filterProgram().listen); strings.Contains(got, "--server") || !strings.Contains(got, `{"filter_typeid":1,`) {
		t.Errorf("default address:\n%s", got)
	}
	got := downloaderProgram().calls("127.0.0.1:9001")
	for _, want := range []string{"uridownloader is ready on http://127.0.0.1:9001", "job add --server http://127.0.0.1:9001 first.yaml"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
}
