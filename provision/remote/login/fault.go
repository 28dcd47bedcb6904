package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// Kind is the kind of a connection failure.
type Kind string

// The kinds of faults.
const (
	Unreachable Kind = "unreachable" // no way to the address, or the name is unknown
	Refused     Kind = "refused"     // the machine is there, and nothing listens
	Timeout     Kind = "timeout"     // no answer in time
	Dropped     Kind = "dropped"     // sshd hung up before it said who it is, several times
	HostKey     Kind = "host key"    // the host did not prove that it is the one we know
	Auth        Kind = "auth"        // it did not let us in
	Protocol    Kind = "protocol"    // something answers that does not talk SSH as we do
	Lost        Kind = "lost"        // an open connection died
)

// Fault is the reason why there is no connection.
type Fault struct {
	Kind Kind
	// Target is the host or bastion that failed, as user@address:port.
	Target string
	Text   string
	Hint   string // the next step for people; "" where there is none
	Err    error  // the cause; may be nil
}

func (f *Fault) Error() string {
	text := f.Target + ": " + f.Text
	if f.Hint != "" {
		text += "\nhint: " + f.Hint
	}
	return text
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// dialFault returns why a connection to an address failed.
func dialFault(t Target, via string, err error) *Fault {
	f := &Fault{Kind: Unreachable, Target: t.String(), Text: plain(err), Err: err}
	var dns *net.DNSError
	var open *ssh.OpenChannelError
	where := t.hostport()
	if via != "" {
		where += " from " + via
	}
	switch {
	case errors.As(err, &open) && open.Reason == ssh.Prohibited:
		f.Text = fmt.Sprintf("%s forwards no connections: %s", via, open.Message)
		f.Hint = "allow it in the sshd_config of the bastion: AllowTcpForwarding yes, and PermitOpen as it needs"
	case errors.As(err, &open):
		f.Text = fmt.Sprintf("not reached from %s: %s", via, open.Message)
		f.Hint = fmt.Sprintf("look at address and port; is the host up, and does the bastion reach %s?", t.hostport())
		if strings.Contains(strings.ToLower(open.Message), "refused") {
			f.Kind = Refused
		}
	case errors.As(err, &dns):
		f.Text = fmt.Sprintf("no address is known for the name %q", dns.Name)
		f.Hint = "look at the address in the inventory, and at HostName in ~/.ssh/config"
	case errors.Is(err, syscall.ECONNREFUSED) || isRefusedOnWindows(err):
		f.Kind, f.Text = Refused, fmt.Sprintf("nothing listens at %s", where)
		f.Hint = "look at the port in the inventory; is sshd running on the host?"
	case isTimeout(err):
		f.Kind, f.Text = Timeout, fmt.Sprintf("no answer from %s", where)
		f.Hint = "is the host up? does a firewall stand between, or is it behind a bastion?"
	default:
		f.Hint = "look at the address in the inventory and at this machine's network"
	}
	return f
}

// isRefusedOnWindows recognizes WSAECONNREFUSED, whose number differs from ECONNREFUSED there.
func isRefusedOnWindows(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) && number == 10061
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// IsHangUp reports whether the peer, or something in between, ended the connection.
func IsHangUp(err error) bool {
	text := err.Error()
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) ||
		// The SSH library wraps some of them as text only.
		strings.HasSuffix(text, "EOF") || strings.Contains(text, "connection reset") || strings.Contains(text, "forcibly closed")
}

// plain is an error's text without the prefix of Go's network packages.
func plain(err error) string {
	if op, is := errors.AsType[*net.OpError](err); is && op.Err != nil {
		err = op.Err
	}
	text := strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")
	return strings.TrimPrefix(strings.TrimPrefix(text, "ssh: "), "connect: ")
}
