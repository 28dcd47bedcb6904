package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// The users of MongoDB. Without the first nobody could create others, once passwords are required.
const (
	adminUser = "urifilter-admin"
	// DaemonUser is the account with which programs call the archive.
	DaemonUser = "urifilter"
)

// secretsDir holds the users' passwords on the server's host, readable only by root.
const secretsDir = "/etc/urifilter-mongodb"

func secretPath(user string) string { return secretsDir + "/" + user + ".password" }

// account reads a user's password, or returns secret.ErrNoPassword.
func (s *Server) account(ctx context.Context, h host.Host, user string) (account, error) {
	password, err := secret.Read(ctx, h, secretPath(user), "put the password back, or remove the file and the user")
	return account{user, password}, err
}

// users creates the users. The server may still run without requiring passwords.
func (s *Server) users() step.Wish {
	return step.NewWish("mongodb: users", func(ctx context.Context, h host.Host) (*step.Change, error) {
		change := &step.Change{Summary: "make the users " + adminUser + " and " + DaemonUser, Apply: func(ctx context.Context) error { return s.makeUsers(ctx, h) }}
		st, err := s.state(ctx, h)
		if err != nil {
			return nil, err
		}
		as, err := s.account(ctx, h, DaemonUser)
		switch {
		case errors.Is(err, secret.ErrNoPassword) || err == nil && !st.Active:
			if st.Active {
				err = s.checkUnused(ctx, h)
			} else {
				err = nil
			}
			return change, err
		case err != nil:
			return nil, err
		}
		switch err := s.admitted(ctx, h, as); {
		case code(err) == unauthorized:
			change.Summary = "let the user " + DaemonUser + " write to " + strings.Join(s.options.More, ", ")
			return change, nil
		case err == nil:
			return nil, nil
		case code(err) == authenticationFailed || isAuth(err):
			return change, s.checkUnused(ctx, h)
		default:
			return nil, fmt.Errorf("%s: %w", s.options.Unit, err)
		}
	})
}

// isAuth reports whether a login was refused, which the driver reports in its own way.
func isAuth(err error) bool {
	return err != nil && strings.Contains(err.Error(), "AuthenticationFailed")
}

// makePasswords makes those that are missing, and returns their files.
func (s *Server) makePasswords(ctx context.Context, h host.Host) (made []string, err error) {
	script := "install -d -m 700 -o root -g root " + secretsDir
	for _, user := range []string{adminUser, DaemonUser} {
		file := secret.File{Path: secretPath(user), Temporary: secretsDir + "/.new.XXXXXX", Owner: "root:root", Mode: "0600"}
		script += fmt.Sprintf(" && { [ -e %[1]s ] || { (%[2]s) && echo %[1]s; }; }", file.Path, file.Script())
	}
	out, err := h.Run(ctx, host.Command{Script: script, Root: true, Secret: true})
	if err != nil {
		return nil, fmt.Errorf("passwords: %w", err)
	}
	return strings.Fields(out.Stdout), nil
}

// makeUsers creates the administrator, and with it the daemons' user.
func (s *Server) makeUsers(ctx context.Context, h host.Host) error {
	made, err := s.makePasswords(ctx, h)
	if err != nil {
		return err
	}
	admin, err := s.account(ctx, h, adminUser)
	if err != nil {
		return err
	}
	daemon, err := s.account(ctx, h, DaemonUser)
	if err != nil {
		return err
	}
	if s.ping(ctx, h, admin) != nil {
		err := s.upsertUser(ctx, h, account{}, admin, bson.A{role("userAdminAnyDatabase", "admin")})
		if code(err) == unauthorized {
			err = fmt.Errorf("%s asks for a password that the toolkit does not know: other applications have users in it%s", s.options.Unit, elsewhere)
			if len(made) > 0 {
				err = errors.Join(err, host.AsRoot(context.WithoutCancel(ctx), h, "rm "+host.Words(made...)+" && rmdir --ignore-fail-on-non-empty "+secretsDir))
			}
			return err
		}
		if err != nil {
			return fmt.Errorf("user %s: %w", adminUser, err)
		}
	}
	roles := bson.A{role("readWrite", s.options.Database)}
	for _, name := range s.options.More {
		roles = append(roles, role("readWrite", name))
	}
	if err := s.upsertUser(ctx, h, admin, daemon, roles); err != nil {
		return fmt.Errorf("user %s: %w", DaemonUser, err)
	}
	return nil
}

func role(name, database string) bson.D {
	return bson.D{{Key: "role", Value: name}, {Key: "db", Value: database}}
}

// upsertUser creates a user, or sets the password and the roles of an existing one.
func (s *Server) upsertUser(ctx context.Context, h host.Host, as, user account, roles bson.A) error {
	return s.call(ctx, h, as, func(ctx context.Context, c *mongo.Client) error {
		command := func(verb string) error {
			return c.Database("admin").RunCommand(ctx, bson.D{
				{Key: verb, Value: user.name}, {Key: "pwd", Value: user.password}, {Key: "roles", Value: roles},
			}).Err()
		}
		err := command("createUser")
		if code(err) == userExists {
			err = command("updateUser")
		}
		return err
	})
}

// URI returns the mongodb.uri for a daemon, with the password. at is the server's host, address is
// how the daemon's host reaches it, and local: the two are the same host. The error is
// secret.ErrNoPassword if the users have not been created yet.
func (s *Server) URI(ctx context.Context, at host.Host, local bool, address string) (string, error) {
	u := url.URL{Scheme: "mongodb", Host: s.Address(local, address), Path: "/"}
	if s.options.Flavor == MongoDB {
		as, err := s.account(ctx, at, DaemonUser)
		if err != nil {
			return "", err
		}
		u.User = url.UserPassword(as.name, as.password)
		u.RawQuery = "authSource=admin"
	}
	return u.String(), nil
}
