package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/provision/yamledit"
)

// configPath is MongoDB's configuration file, and keptPath what it was before the toolkit's first change.
const (
	configPath = "/etc/mongod.conf"
	keptPath   = configPath + ".before-urifilter"
)

// setting is a key of the file with its required value; nil: it must be absent.
type setting struct {
	key   string
	value any
}

// edited returns MongoDB's file with our keys; other lines are kept.
func edited(text string, settings ...setting) (string, error) {
	root, err := yamledit.Parse(configPath, text)
	if err != nil {
		return "", err
	}
	for _, l := range yamledit.Leaves(root) {
		switch {
		case strings.HasPrefix(l.Key, "replication.repl") || l.Key == "sharding.clusterRole":
			return "", fmt.Errorf("%s:%d: %s: this server belongs to a replica set or a cluster%s", configPath, l.Line, l.Key, elsewhere)
		case l.Key == "net.bindIpAll" && l.Value.Value == "true":
			return "", fmt.Errorf("%s:%d: net.bindIpAll: this server listens on every address\nhint: remove the key; mongodb.bind of the inventory names the addresses", configPath, l.Line)
		}
	}
	var edits []yamledit.Edit
	for _, s := range settings {
		if s.value == nil {
			if strings.Contains(text, tlsPair) { // the toolkit has set it
				edits = append(edits, yamledit.Edit{Key: s.key})
			}
			continue
		}
		value, err := yamledit.Value(s.value)
		if err != nil {
			return "", err
		}
		edits = append(edits, yamledit.Edit{Key: s.key, Value: value})
	}
	return yamledit.Apply(configPath, text, edits)
}

// port sets MongoDB's port and TLS before its first start, while it listens only to its own host. Packages that were just
// installed may have found data of others, whose server then must not be changed.
func (s *Server) port() step.Wish {
	edit := s.edit("mongodb: port", func(there bool) []setting {
		if !there && s.options.Port == defaultPort && !s.encrypts() {
			return nil // the default of the package
		}
		return append([]setting{{"net.port", s.options.Port}}, s.encryption()...)
	})
	return step.NewWish(edit.Title(), func(ctx context.Context, h host.Host) (*step.Change, error) {
		change, err := edit.Look(ctx, h)
		if err != nil || change == nil {
			return nil, err
		}
		apply := change.Apply
		change.Apply = func(ctx context.Context) error {
			if err := s.mayTake(ctx, h, true); err != nil {
				return err
			}
			return apply(ctx)
		}
		return change, s.mayTake(ctx, h, false)
	})
}

// configuration makes MongoDB require passwords and listen as required, both with one restart: it
// never listens to others without requiring passwords.
func (s *Server) configuration() step.Wish {
	return s.edit("mongodb: configuration", func(bool) []setting {
		return append(s.addresses(), setting{"security.authorization", "enabled"})
	})
}

// addresses are the settings of where it listens. Without net.ipv6 it leaves addresses of IPv6 out, with a warning in
// its log.
func (s *Server) addresses() []setting {
	all := []setting{{"net.bindIp", strings.Join(append([]string{"127.0.0.1"}, s.options.Bind...), ",")}}
	if slices.ContainsFunc(s.options.Bind, func(address string) bool { return strings.Contains(address, ":") }) {
		all = append(all, setting{"net.ipv6", true})
	}
	return all
}

// edit is a step for keys of the file. A running server is restarted with it; if it does not come
// up again, the old file is restored.
func (s *Server) edit(name string, settings func(there bool) []setting) step.Wish {
	return step.NewWish(name, func(ctx context.Context, h host.Host) (*step.Change, error) {
		now, there, err := host.ReadFile(ctx, h, configPath)
		if err != nil {
			return nil, err
		}
		want := settings(there)
		if len(want) == 0 {
			return nil, nil
		}
		text, err := edited(now.Content, want...)
		if err != nil {
			return nil, err
		}
		if there && text == now.Content {
			return s.restartStale(ctx, h, configPath)
		}
		return &step.Change{Summary: "edit " + configPath, Diff: diff.Masked(configPath, now.Content, text), Apply: func(ctx context.Context) error {
			if !there {
				return fmt.Errorf("%s does not exist, though the packages are installed\nhint: apt-get install --reinstall mongodb-org-server", configPath)
			}
			wish := now
			wish.Content = text
			return s.replace(ctx, h, wish, now)
		}}, nil
	})
}

func (s *Server) replace(ctx context.Context, h host.Host, wish, before host.File) error {
	if err := host.Keep(ctx, h, configPath, keptPath); err != nil {
		return err
	}
	if err := host.WriteFile(ctx, h, wish); err != nil {
		return err
	}
	st, err := s.state(ctx, h)
	if err != nil || !st.Active {
		return err
	}
	if err := s.systemctl(ctx, h, "restart"); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		back := host.WriteFile(undo, h, before)
		if back == nil {
			_, back = h.Run(undo, host.Command{Script: "systemctl reset-failed " + host.Quote(s.unit()) + "; systemctl restart " + host.Quote(s.unit()), Root: true})
		}
		if back != nil {
			back = fmt.Errorf("and with the previous file: %w", back)
		}
		return errors.Join(err, back)
	}
	return nil
}

// restartStale restarts a server that still runs with an older file: the run that wrote the new one
// was interrupted.
func (s *Server) restartStale(ctx context.Context, h host.Host, path string) (*step.Change, error) {
	// Since when comes last: systemd may start it again between the two questions.
	script := fmt.Sprintf(`systemctl is-active --quiet %s && since=$(systemctl show --property=ActiveEnterTimestamp --value %[1]s) &&
[ -n "$since" ] && [ "$(stat -c %%Y %s)" -gt "$(date -d "$since" +%%s)" ]`, host.Quote(s.unit()), host.Quote(path))
	out, err := h.Run(ctx, host.Command{Script: script, OK: []int{1, 3, 4}, Watch: true})
	if err != nil || out.Code != 0 {
		return nil, err
	}
	return &step.Change{Summary: "restart " + s.options.Unit + ", which runs with an older " + path, Apply: func(ctx context.Context) error {
		return s.systemctl(ctx, h, "restart")
	}}, nil
}
