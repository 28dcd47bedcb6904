package socks

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
)

// proxy sends what it is given, and records what it receives.
type proxy struct {
	io.Reader
	heard bytes.Buffer
}

func (p *proxy) Write(b []byte) (int, error) { return p.heard.Write(b) }

func TestConnect(t *testing.T) {
	host := Target{Host: "example.com", Port: 443}
	me := Login{"me", "secret"}
	var refused *Refusal
	for name, test := range map[string]struct {
		says  string
		to    Target
		as    Login
		hears string
		err   func(error) bool
	}{
		"name":            {"\x05\x00\x05\x00\x00\x01\x01\x02\x03\x04\x00\x50", host, Login{}, "\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbb", nil},
		"ipv4":            {"\x05\x00\x05\x00\x00\x03\x02ab\x00\x50", Target{Addr: netip.MustParseAddr("::ffff:1.2.3.4"), Port: 80}, Login{}, "\x05\x01\x00\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50", nil},
		"ipv6":            {"\x05\x00\x05\x00\x00\x04" + strings.Repeat("x", 18), Target{Addr: netip.MustParseAddr("::1"), Port: 80}, Login{}, "\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x00\x50", nil},
		"password":        {"\x05\x02\x01\x00\x05\x00\x00\x01\x01\x02\x03\x04\x00\x50", host, me, "\x05\x02\x00\x02\x01\x02me\x06secret\x05\x01\x00\x03\x0bexample.com\x01\xbb", nil},
		"not wanted":      {"\x05\x00\x05\x00\x00\x01\x01\x02\x03\x04\x00\x50", host, me, "\x05\x02\x00\x02\x05\x01\x00\x03\x0bexample.com\x01\xbb", nil},
		"wrong":           {"\x05\x02\x01\x01", host, me, "\x05\x02\x00\x02\x01\x02me\x06secret", func(err error) bool { return errors.Is(err, ErrAuthentication) }},
		"missing":         {"\x05\xff", host, Login{}, "\x05\x01\x00", func(err error) bool { return errors.Is(err, ErrAuthentication) }},
		"asked for none":  {"\x05\x02", host, Login{}, "\x05\x01\x00", func(err error) bool { return errors.Is(err, ErrAuthentication) }},
		"refused":         {"\x05\x00\x05\x05\x00\x01", host, Login{}, "\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbb", func(err error) bool { return errors.As(err, &refused) && refused.Code == 5 }},
		"unknown code":    {"\x05\x00\x05\xfe\x00\x01", host, Login{}, "\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbb", func(err error) bool { return errors.As(err, &refused) && strings.Contains(err.Error(), "254") }},
		"http":            {"HTTP/1.1 400 Bad Request", host, Login{}, "\x05\x01\x00", func(err error) bool { return errors.Is(err, ErrProtocol) }},
		"unknown address": {"\x05\x00\x05\x00\x00\x09", host, Login{}, "\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbb", func(err error) bool { return errors.Is(err, ErrProtocol) }},
		"ends early":      {"\x05\x00\x05\x00", host, Login{}, "\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbb", func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"long":            {"", Target{Host: strings.Repeat("x", 256)}, Login{}, "", func(err error) bool { return errors.Is(err, ErrProtocol) }},
	} {
		p := &proxy{Reader: strings.NewReader(test.says + "rest")}
		if strings.HasPrefix(name, "ends") {
			p.Reader = strings.NewReader(test.says)
		}
		err := Connect(p, test.to, test.as)
		if (test.err == nil) != (err == nil) || err != nil && !test.err(err) {
			t.Errorf("%s: got %v", name, err)
		}
		if p.heard.String() != test.hears {
			t.Errorf("%s: the proxy heard %q, want %q", name, p.heard.String(), test.hears)
		}
		if err == nil {
			if rest, _ := io.ReadAll(p); string(rest) != "rest" {
				t.Errorf("%s: what the target says begins with %q", name, rest)
			}
		}
	}
}

func FuzzConnect(f *testing.F) {
	f.Add("\x05\x02\x01\x00\x05\x00\x00\x03\xff")
	f.Fuzz(func(t *testing.T, says string) {
		r := strings.NewReader(says)
		err := Connect(&proxy{Reader: r}, Target{Host: "a", Port: 1}, Login{"a", "b"})
		if read := len(says) - r.Len(); read > 2+2+4+1+255+2 {
			t.Errorf("%d bytes were read (%v)", read, err)
		}
	})
}
