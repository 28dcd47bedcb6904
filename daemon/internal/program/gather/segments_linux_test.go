package gather_test

import (
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"
)

// A gathered answer is sent in one call where net/http alone makes two, and the system sends the
// data of each call separately.
func TestOneCall(t *testing.T) {
	sent := map[string]uint32{}
	for _, path := range []string{"/", "/gathered"} {
		url, last := serve(t, 9_000)
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		sent[path] = segments(t, last())
	}
	if sent["/gathered"] >= sent["/"] {
		t.Errorf("%d segments, want fewer than the %d of an answer that is not gathered", sent["/gathered"], sent["/"])
	}
}

// segments returns how many segments with data were sent, without retransmissions.
func segments(t *testing.T, c net.Conn) uint32 {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	var asked error
	if err := raw.Control(func(fd uintptr) { info, asked = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil {
		t.Fatal(err)
	}
	if asked != nil {
		t.Fatal(asked)
	}
	return info.Data_segs_out - info.Total_retrans
}
