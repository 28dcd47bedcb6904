package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// asked is the step after which a server that is there already has said whose data it has, before anything is changed
// for it. One that is down is started for that.
func (s *Server) asked() step.Wish {
	return step.NewWish("redis: whose data it has", func(ctx context.Context, h host.Host) (*step.Change, error) {
		st, err := s.inspect(ctx, h)
		if err == nil {
			err = s.mayTake(ctx, h, st)
		}
		if err != nil || !st.Loaded || !st.installed || st.Active || st.include >= 0 || s.options.Adopt {
			return nil, err
		}
		return &step.Change{Summary: "start " + s.product.unit + ", which only then tells it", Apply: func(ctx context.Context) error {
			return s.startAsItIs(ctx, h, st)
		}}, nil
	})
}

// secretStep makes the password, on the host, unless the server has one.
func (s *Server) secretStep() step.Wish {
	return step.NewWish("redis: password", func(ctx context.Context, h host.Host) (*step.Change, error) {
		st, err := s.inspect(ctx, h)
		if err != nil {
			return nil, err
		}
		if err := s.mayTake(ctx, h, st); err != nil {
			return nil, err
		}
		path, owner := s.product.secret(), "root:"+s.product.group
		switch {
		case !st.own:
			return nil, nil
		case !st.made:
			return &step.Change{Summary: "make a password, in " + path, Apply: func(ctx context.Context) error {
				if known, err := s.known(ctx); err != nil {
					return err
				} else if known != "" {
					step.Say(ctx, "taking the password that the daemons know")
					return host.WriteFile(ctx, h, host.File{Path: path, Content: "requirepass " + known + "\n", Mode: 0o640, Group: s.product.group})
				}
				file := secret.File{Path: path, Temporary: s.product.folder + "/.urifilter.XXXXXX", Before: "requirepass ", Owner: owner, Mode: "0640"}
				_, err := h.Run(ctx, host.Command{Script: file.Script(), Root: true, Secret: true})
				return err
			}}, nil
		case st.secret.Mode != 0o640 || st.secret.Owner+":"+st.secret.Group != owner:
			return &step.Change{Summary: fmt.Sprintf("let only %s read %s", owner, path), Apply: func(ctx context.Context) error {
				return host.AsRoot(ctx, h, fmt.Sprintf("chown %s %s && chmod 0640 %[2]s", owner, host.Quote(path)))
			}}, nil
		}
		return nil, nil
	})
}

// known returns the password of the server that this one replaces, "" if there is none.
func (s *Server) known(ctx context.Context) (string, error) {
	if s.options.Known == nil {
		return "", nil
	}
	password, err := s.options.Known(ctx)
	if errors.Is(err, secret.ErrNoPassword) || err == nil && !secret.IsDrawn(password) {
		return "", nil
	}
	return password, err
}

// dropInText makes the server wait for the addresses that it listens on: at boot they may
// appear later than the server starts, and it gives up after five tries within a second.
const dropInText = `# Written by the urifilter toolkit, which rewrites it when it differs.
[Unit]
Wants=network-online.target
After=network-online.target

[Service]
RestartSec=3s
`

// wishes returns the files as they must be.
func (s *Server) wishes(st state) (settings, main, dropIn host.File) {
	settings = host.File{Path: s.product.settings(), Content: s.text(st), Mode: 0o640, Group: s.product.group}
	main = st.main
	main.Path = s.product.main
	if st.include < 0 {
		main.Content = withInclude(st.main.Content, s.product.settings())
	}
	dropIn = host.File{Path: s.product.dropIn()}
	if len(s.options.Bind) > 0 {
		dropIn.Content = dropInText
	}
	return settings, main, dropIn
}

// configuration sets the server up: first while it runs, so that it says what it does not
// accept and loses nothing, then in the files. There is no automatic undo: with the earlier
// files the server might begin with what it knew long ago.
func (s *Server) configuration() step.Wish {
	return step.NewWish("redis: configuration", func(ctx context.Context, h host.Host) (*step.Change, error) {
		st, err := s.inspect(ctx, h)
		if err != nil {
			return nil, err
		}
		settings, main, dropIn := s.wishes(st)
		c := &step.Change{Summary: "write " + settings.Path, Apply: func(ctx context.Context) error { return s.configure(ctx, h) }}
		if !settings.Same(st.settings) {
			c.Diff += diff.Masked(settings.Path, st.settings.Content, settings.Content)
		}
		if main.Content != st.main.Content {
			c.Diff += diff.Masked(main.Path, st.main.Content, main.Content)
		}
		c.Diff += diff.Unified(dropIn.Path, st.dropIn.Content, dropIn.Content)
		if settings.Same(st.settings) && main.Content == st.main.Content && dropIn.Content == st.dropIn.Content {
			return nil, nil
		}
		if !st.installed {
			c.Diff = diff.Unified(settings.Path, "", settings.Content)
		}
		return c, nil
	})
}

func (s *Server) configure(ctx context.Context, h host.Host) error {
	st, err := s.inspect(ctx, h)
	if err != nil {
		return err
	}
	if !st.installed {
		return fmt.Errorf("%s does not exist\nhint: see whether the package %s was removed in part: apt-get install --reinstall %[2]s", s.product.main, s.product.pkg)
	}
	if !st.Active {
		// It must run with its earlier setup, to take over what it has on disk.
		if err := s.startAsItIs(ctx, h, st); err != nil {
			return err
		}
	}
	if err := s.apply(ctx, h, st); err != nil {
		return err
	}
	settings, main, dropIn := s.wishes(st)
	if main.Content != st.main.Content {
		if err := host.Keep(ctx, h, main.Path, main.Path+".before-urifilter"); err != nil {
			return err
		}
	}
	for _, f := range []struct{ wish, now host.File }{{settings, st.settings}, {main, st.main}} {
		if !f.wish.Same(f.now) {
			if err := host.WriteFile(ctx, h, f.wish); err != nil {
				return err
			}
		}
	}
	if dropIn.Content == st.dropIn.Content {
		return nil
	}
	return host.PutUnits(ctx, h, dropIn)
}

// apply sets the running server up. The password comes first, the addresses come last: the
// server never listens to others without a password.
func (s *Server) apply(ctx context.Context, h host.Host, st state) error {
	c, err := s.reach(ctx, h, st)
	if err != nil {
		return err
	}
	if err := c.appendOnly(ctx); err != nil {
		return err
	}
	if st.password != "" && c.password == "" {
		if _, err := c.send(ctx, "CONFIG SET requirepass "+quoteArg(st.password)); err != nil {
			return fmt.Errorf("requirepass: %w", err)
		}
		c.password = st.password
	}
	differ, err := s.differing(ctx, c, st)
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(differ) { // bind and port are the first of the list
		if c.listensBy(d) {
			continue // changing it would cut our connection; a restart does it
		}
		_, err := c.send(ctx, "CONFIG SET "+d.key+" "+quoteArg(d.value))
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "Unsupported CONFIG") || strings.Contains(err.Error(), "immutable") || strings.Contains(err.Error(), "Unknown option"):
			// An older version; a restart does it.
		case d.key == "bind":
			return fmt.Errorf("bind %s: %w\nhint: every address of redis.bind in the inventory must be one of this host (ip address)", d.value, err)
		default:
			return fmt.Errorf("%s %s: %w", d.key, d.value, err)
		}
	}
	return nil
}

// reach connects with the password, or without one if the server has none yet.
func (s *Server) reach(ctx context.Context, h host.Host, st state) (client, error) {
	c := s.client(h, st)
	err := c.ready(ctx)
	if auth, is := errors.AsType[errAuth](err); is {
		return c, fmt.Errorf("%s has another password than its files say (%s)\nhint: `systemctl restart %s` on the host gives it that of its files", s.product.name, auth.said, s.product.unit)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", s.product.name, err)
	}
	without := c
	without.password = ""
	if _, err := without.send(ctx, "PING"); err == nil {
		c.password = ""
	}
	return c, nil
}

// differing returns the settings that are different in the running server.
func (s *Server) differing(ctx context.Context, c client, st state) ([]directive, error) {
	now, err := c.config(ctx, keysOf(s.directives(st))...)
	if err != nil {
		return nil, err
	}
	var differ []directive
	for _, d := range s.directives(st) {
		want := d.value
		if d.key == "maxmemory" {
			want = fmt.Sprint(bytesOf(d.value))
		}
		if now[d.key] != want {
			differ = append(differ, d)
		}
	}
	return differ, nil
}

func keysOf(all []directive) []string {
	var keys []string
	for _, d := range all {
		keys = append(keys, d.key)
	}
	return keys
}

// bytesOf reads a size as redis.conf writes it: k is 1000, kb is 1024.
func bytesOf(text string) int64 {
	number := strings.TrimRight(strings.ToLower(text), "kmgb")
	var n int64
	if _, err := fmt.Sscan(number, &n); err != nil {
		return -1 // New has refused it
	}
	unit := map[string]int64{"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}
	return n * unit[strings.ToLower(text)[len(number):]]
}
