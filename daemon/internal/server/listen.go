package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/cr-clawer/urifilter/configs"
)

// listen takes the sockets that systemd hands over, or opens the configured one.
func listen(cfg configs.Config, log *slog.Logger) (_ []net.Listener, err error) {
	handed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("sockets handed over by systemd: %w", err)
	}
	if len(handed) == 0 {
		l, err := net.Listen("tcp", cfg.Listen)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w\nhint: is urifilter already running there? choose another port with --listen", err)
		}
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	defer func() {
		if err == nil {
			return
		}
		for _, l := range handed {
			if l != nil {
				_ = l.Close()
			}
		}
	}()
	var addresses []string
	for i, l := range handed {
		if l == nil {
			return nil, fmt.Errorf("socket %d handed over by systemd: no stream to listen on\nhint: want ListenStream= alone in urifilter.socket", i+1)
		}
		address := l.Addr().String()
		addresses = append(addresses, address)
		// Validate has judged cfg.Listen, which may be another one.
		if cfg.Auth.TokensFile == "" && l.Addr().Network() == "tcp" && !configs.Loopback(address) {
			return nil, fmt.Errorf("socket %s handed over by systemd: other machines could call without a token\n"+
				"hint: set auth.tokens_file in the settings, or ListenStream=127.0.0.1:... in urifilter.socket", address)
		}
	}
	if !slices.ContainsFunc(handed, func(l net.Listener) bool { return sameAddress(cfg.Listen, l.Addr()) }) {
		log.Warn("systemd's socket is not the address of the settings; the socket counts. `urifilter service install --now` brings them together",
			"sockets", addresses, "listen", cfg.Listen)
	}
	return handed, nil
}

// sameAddress tells whether a socket has the address that the settings give.
func sameAddress(listen string, socket net.Addr) bool {
	have, ok := socket.(*net.TCPAddr)
	if !ok {
		return false
	}
	want, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil || want.Port != have.Port {
		return false
	}
	every := func(ip net.IP) bool { return ip == nil || ip.IsUnspecified() }
	return want.IP.Equal(have.IP) || every(want.IP) && every(have.IP)
}

// warnPlainText tells of tokens that others on the way can read.
func warnPlainText(listeners []net.Listener, cfg configs.Config, log *slog.Logger) {
	if cfg.Auth.TokensFile == "" || cfg.TLS.CertFile != "" {
		return
	}
	for _, l := range listeners {
		if a := l.Addr(); a.Network() == "tcp" && !configs.Loopback(a.String()) {
			log.Warn("tokens and items travel in plain text on this address: set tls.cert_file and tls.key_file, or let only what has TLS in front reach it", "address", a.String())
		}
	}
}
