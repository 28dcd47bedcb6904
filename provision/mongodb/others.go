package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/provision/yamledit"
)

// elsewhere is the way out for a server of others.
const elsewhere = "\nhint: name it in the inventory (mongodb.uri, or mongodb.uri_env for one with a password) and take the role mongodb off this host"

// asked is the step after which a server that is there already has said whether others use it, before anything is changed
// for it. fit has asked what one that is up tells anybody.
func (s *Server) asked() step.Wish {
	done := false
	return step.NewWish("mongodb: whose it is", func(ctx context.Context, h host.Host) (*step.Change, error) {
		was, st, err := s.found(ctx, h)
		if err != nil || was == nil || done {
			return nil, err
		}
		if st.Active && s.options.Flavor == FerretDB {
			return nil, nil
		}
		if admin, err := s.account(ctx, h, adminUser); err == nil && st.Active && was.ping(ctx, h, admin) == nil {
			return nil, nil
		}
		return &step.Change{Summary: "ask " + s.options.Unit + " whether others use it", Apply: func(ctx context.Context) error {
			err := s.mayTake(ctx, h, true)
			done = err == nil // one that serves nobody stays down
			return err
		}}, nil
	})
}

// mayTake says why a server that the toolkit has not set up yet must not be changed: others have data or users in it. It
// is asked as it is. One that is down says so only when it is started, if take allows that, and one of others is
// stopped again. With take, a MongoDB that is nobody's gets our users, which only such a server lets us make.
func (s *Server) mayTake(ctx context.Context, h host.Host, take bool) (err error) {
	was, st, err := s.found(ctx, h)
	if err != nil || was == nil || !st.Active && !take {
		return err
	}
	if !st.Active {
		defer func() {
			if err != nil {
				err = errors.Join(err, host.Systemctl(context.WithoutCancel(ctx), h, "stop", s.unit()))
			}
		}()
		if err := was.start(ctx, h); err != nil {
			switch st, unknown := s.state(ctx, h); {
			case unknown != nil:
				return err
			case st.Active: // at other addresses
				return fmt.Errorf("%w%s", err, elsewhere)
			}
			return nil // it serves nobody, and may need our settings for that: another program has its port, perhaps
		}
	} else if err := was.locate(ctx, h); err != nil {
		return err
	}
	if err := was.checkUnused(ctx, h); err != nil || !take || s.options.Flavor == FerretDB {
		return err
	}
	return was.makeUsers(ctx, h)
}

// found returns a server that the toolkit has not set up, as it is; nil if there is none, or if it has never run.
func (s *Server) found(ctx context.Context, h host.Host) (was *Server, st host.Unit, err error) {
	if st, err = s.state(ctx, h); err != nil || !st.Loaded {
		return nil, st, err
	}
	if s.options.Flavor == FerretDB {
		_, ours, err := host.ReadFile(ctx, h, s.dropIn())
		if err != nil || ours {
			return nil, st, err
		}
		was = &Server{s.options}
		was.options.Port, was.options.Bind, was.options.Certificate = defaultPort, nil, nil
		return was, st, nil
	}
	now, _, err := host.ReadFile(ctx, h, configPath)
	if err != nil {
		return nil, st, err
	}
	was, data, err := s.asItIs(now.Content)
	if err != nil {
		return nil, st, err
	}
	script := fmt.Sprintf("[ -e %s ] || { %t && echo; } || find -H %s -mindepth 1 -print -quit 2>/dev/null || :", keptPath, st.Active, host.Quote(data))
	out, err := h.Run(ctx, host.Command{Script: script, Root: true, Watch: true})
	if err != nil || out.Stdout == "" {
		return nil, st, err
	}
	return was, st, nil
}

// asItIs returns the server with the port of a file that others may have written, and where its data are.
func (s *Server) asItIs(text string) (was *Server, data string, err error) {
	if _, err := edited(text); err != nil { // a replica set, for example
		return nil, "", err
	}
	root, err := yamledit.Parse(configPath, text)
	if err != nil {
		return nil, "", err
	}
	was, data = &Server{s.options}, "/data/db"
	was.options.Port = defaultPort
	for _, l := range yamledit.Leaves(root) {
		switch l.Key {
		case "net.port":
			if was.options.Port, err = strconv.Atoi(l.Value.Value); err != nil {
				return nil, "", fmt.Errorf("%s:%d: %s: %w", configPath, l.Line, l.Key, err)
			}
		case "storage.dbPath":
			data = l.Value.Value
		}
	}
	return was, data, nil
}

// start starts a server as it is, and returns when it accepts connections.
func (s *Server) start(ctx context.Context, h host.Host) error {
	if err := host.Systemctl(ctx, h, "start", s.unit(), logs); err != nil {
		return err
	}
	if err := s.locate(ctx, h); err != nil {
		return err
	}
	return s.listens(ctx, h)
}

// locate has the address of a FerretDB that runs from its process: units, files and arguments may set it.
func (s *Server) locate(ctx context.Context, h host.Host) error {
	if s.options.Flavor != FerretDB {
		return nil
	}
	script := fmt.Sprintf(`cd /proc/"$(systemctl show -p MainPID --value %s)" && { tr '\0' '\n' <environ | sed -n 's/^FERRETDB_LISTEN_ADDR=//p'
tr '\0' ' ' <cmdline | sed -n 's/.* --listen-addr[= ]\([^ ]*\).*/\1/p'; } 2>/dev/null || :`, host.Quote(s.unit()))
	out, err := h.Run(ctx, host.Command{Script: script, Root: true, Watch: true})
	if err != nil {
		return err
	}
	name, number, err := net.SplitHostPort(host.LastLine(out.Stdout))
	port, bad := strconv.Atoi(number)
	if err != nil || bad != nil {
		return nil // that of a FerretDB without a word on it, which does not answer if it is at no such address
	}
	s.options.Port = port
	if ip := net.ParseIP(name); name != "" && !ip.IsUnspecified() {
		s.options.Bind = []string{name}
	}
	return nil
}

// checkUnused refuses a server with data or users of others: a password would lock out their
// programs, another address too, and we cannot log in as one of their users.
func (s *Server) checkUnused(ctx context.Context, h host.Host) error {
	if s.options.Flavor == MongoDB {
		if admin, err := s.account(ctx, h, adminUser); err == nil && s.ping(ctx, h, admin) == nil {
			return nil
		}
	}
	err := s.call(ctx, h, account{}, func(ctx context.Context, c *mongo.Client) error {
		names, err := c.ListDatabaseNames(ctx, bson.D{})
		if err != nil {
			return fmt.Errorf("%s at %s: %w%s", s.options.Unit, s.Address(true, ""), err, elsewhere)
		}
		if i := slices.IndexFunc(names, func(n string) bool {
			return !slices.Contains(append([]string{"admin", "config", "local", s.options.Database}, s.options.More...), n)
		}); i >= 0 {
			why := "asks for no password; setting one would lock that application out"
			if s.options.Flavor == FerretDB {
				why = "may get another address, at which that application does not find it"
			}
			return fmt.Errorf("%s holds a database of another application, %q, and %s%s", s.options.Unit, names[i], why, elsewhere)
		}
		return nil
	})
	if code(err) == unauthorized && s.options.Flavor == MongoDB {
		// Fresh servers that require passwords allow the first user to be created from their own host.
		return nil
	}
	return err
}
