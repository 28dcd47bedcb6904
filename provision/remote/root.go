package remote

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// rootWay is a way to become root on a host.
type rootWay int

const (
	isRoot       rootWay = iota // by the login
	sudoFree                    // sudo asks for nothing
	sudoPassword                // sudo wants a password each time
)

// identity is who runs a command.
type identity struct {
	prefix   string // of the command line: sudo, runuser
	sudo     bool
	password string // sudo reads it first
	user     string // one other than root and the login
}

// asRoot returns the same identity without the last change of the user.
func (i identity) asRoot() identity {
	i.prefix, _, _ = strings.Cut(i.prefix, "runuser ")
	i.user = ""
	return i
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// become finds out how to run the command as the user that it wants.
func (c *Conn) become(ctx context.Context, cmd host.Command) (identity, error) {
	if cmd.User != "" && !plainName.MatchString(cmd.User) {
		return identity{}, fmt.Errorf("user %q: want a name of letters, digits, _ . -", cmd.User)
	}
	user := cmd.User
	if user == "root" || user == "" {
		if user == "" && !cmd.Root {
			return identity{}, nil
		}
		user = ""
	} else if user == c.link.Target().User() {
		return identity{}, nil
	}
	as, err := c.asRoot(ctx)
	if err != nil || user == "" {
		return as, err
	}
	as.user = user
	as.prefix += "runuser -u " + user + " -- "
	return as, nil
}

// Root reports whether we can be root on the host, and how: "as root", "by sudo", "by sudo
// with a password".
func (c *Conn) Root(ctx context.Context) (how string, err error) {
	as, err := c.asRoot(ctx)
	switch {
	case err != nil:
		return "", err
	case as.password != "":
		return "by sudo with a password", nil
	case as.sudo:
		return "by sudo", nil
	}
	return "as root", nil
}

// asRoot finds out once how to become root. A password that was refused is not tried a
// second time.
func (c *Conn) asRoot(ctx context.Context) (identity, error) {
	select {
	case c.root.turn <- struct{}{}:
	case <-ctx.Done():
		return identity{}, context.Cause(ctx)
	}
	defer func() { <-c.root.turn }()
	if !c.root.known {
		way, err := c.findRoot(ctx)
		if ctx.Err() != nil || errors.As(err, new(*host.ConnectionError)) {
			return identity{}, err // it may succeed the next time
		}
		c.root.known, c.root.way, c.root.err = true, way, err
	}
	if c.root.err != nil {
		return identity{}, c.root.err
	}
	switch c.root.way {
	case sudoFree:
		return identity{prefix: "sudo -n -H -- ", sudo: true}, nil
	case sudoPassword:
		password, err := c.sudoSecret(ctx)
		return identity{prefix: "sudo -S -H -p '' -- ", sudo: true, password: password}, err
	}
	return identity{}, nil
}

func (c *Conn) findRoot(ctx context.Context) (rootWay, error) {
	if c.uid == 0 {
		return isRoot, nil
	}
	if c.host.Sudo == "none" {
		return 0, fmt.Errorf("%s: the login is %s, and sudo is none\nhint: log in as root, or set sudo: auto in the inventory", c.Name(), c.link.Target().User())
	}
	// -k ignores what sudo remembers, which it may forget in the middle of a run.
	out, err := c.exec(ctx, identity{}, host.Command{Script: "sudo -k -n -- /bin/sh -c :"}, true)
	switch {
	case err != nil:
		return 0, err
	case out.Code == 0:
		return sudoFree, nil
	case out.Code == 127:
		return 0, fmt.Errorf("%s: the login is %s, and there is no sudo\nhint: install sudo on the host, or log in as root", c.Name(), c.link.Target().User())
	case needsTTY(out.Stderr):
		return 0, c.sudoError(out.Stderr, false)
	}
	password, err := c.sudoSecret(ctx)
	if err != nil {
		return 0, err
	}
	// The input ends after the password, so that it is tried only once.
	out, err = c.exec(ctx, identity{}, host.Command{Script: "sudo -k -S -p '' -- /bin/sh -c :", Stdin: strings.NewReader(password + "\n"), Secret: true}, true)
	if err != nil {
		return 0, err
	}
	if out.Code != 0 {
		return 0, c.sudoError(out.Stderr, true)
	}
	return sudoPassword, nil
}

func (c *Conn) sudoSecret(ctx context.Context) (string, error) {
	password, err := c.dialer.SudoPassword(ctx, c.link.Target(), c.Name())
	switch {
	case err == nil && strings.ContainsAny(password, "\n\r\x00"):
		return "", fmt.Errorf("%s: the password for sudo has a line end in it", c.Name())
	case errors.Is(err, login.ErrNobody):
		return "", fmt.Errorf("%s: sudo wants the password of %s, and %w\nhint: or let %[2]s use sudo without one (NOPASSWD), or log in as root", c.Name(), c.link.Target().User(), err)
	case err != nil:
		return "", fmt.Errorf("%s: password of %s for sudo: %w\nhint: set %s to the right one, or run it on a terminal to be asked", c.Name(), c.link.Target().User(), err, c.link.Target().SudoEnv())
	}
	return password, nil
}

func needsTTY(said string) bool { return strings.Contains(said, "must have a tty") }

// sudoError returns the reason why sudo failed; said is what it wrote.
func (c *Conn) sudoError(said string, tried bool) error {
	user := c.link.Target().User()
	switch {
	case needsTTY(said):
		return fmt.Errorf("%s: sudo wants a terminal: %s\nhint: in a file of /etc/sudoers.d on the host: Defaults:%s !requiretty", c.Name(), host.LastLine(said), user)
	case strings.Contains(said, "not in the sudoers") || strings.Contains(said, "not allowed to"):
		return fmt.Errorf("%s: %s may not become root: %s\nhint: add %[2]s to the group sudo on the host, or log in as root", c.Name(), user, host.LastLine(said))
	case tried:
		err := fmt.Errorf("%s: sudo did not take the password of %s, which was tried once and is not tried again: %s", c.Name(), user, host.LastLine(said))
		c.dialer.RefuseSudoPassword(c.link.Target(), c.Name())
		return fmt.Errorf("%w\nhint: set %s to the right one, or run it on a terminal to be asked", err, c.link.Target().SudoEnv())
	}
	return fmt.Errorf("%s: sudo: %s\nhint: see what this says on the host, as %s: sudo -n true", c.Name(), host.LastLine(said), user)
}
