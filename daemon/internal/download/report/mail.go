package report

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strconv"

	"github.com/wneessen/go-mail"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// Mail is the server that sends mails.
type Mail struct {
	Server   string // host:port
	From     string // an address
	User     string // "": the server needs no login
	Password string
	TLS      string         // starttls, tls (from the beginning) or none; "": starttls
	Roots    *x509.CertPool // trusted authorities; nil: the system's
}

// send sends a report to one address.
func (m *Mail) send(ctx context.Context, to string, r Report) (err error) {
	client, err := m.client()
	if err != nil {
		return err
	}
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(m.From), msg.To(to)); err != nil {
		return err
	}
	msg.Subject("uridownloader: " + r.title())
	msg.SetDate()
	msg.SetMessageID()
	msg.SetBodyString(mail.TypeTextPlain, r.text())
	return client.DialAndSendWithContext(ctx, msg)
}

func (m *Mail) client() (*mail.Client, error) {
	host, port, err := net.SplitHostPort(m.Server)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	with := &tls.Config{ServerName: host, RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
	dialer := guard.ForSettings().Dialer()
	options := []mail.Option{mail.WithPort(number), mail.WithTimeout(sendIn), mail.WithTLSConfig(with), mail.WithDialContextFunc(dialer.DialContext)}
	switch cmp.Or(m.TLS, "starttls") {
	case "starttls":
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	case "tls":
		// Not by WithSSL: with a dialer of ours the library would take the connection for a plain one, and
		// send no password. This policy looks at the connection itself.
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic), mail.WithDialContextFunc((&tls.Dialer{NetDialer: dialer, Config: with}).DialContext))
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if m.User != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.User), mail.WithPassword(m.Password))
	}
	return mail.NewClient(host, options...)
}
