package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/remote/login"
	"github.com/cr-clawer/urifilter/provision/step"
)

// tunnel can open connections from the host.
type tunnel interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// errNoTunnel: the host's sshd forwards no connections.
var errNoTunnel = errors.New("the host forwards no connections\nhint: AllowTcpForwarding local in its sshd_config, for the toolkit's user")

// callWait is the time limit of a call.
const callWait = 20 * time.Second

// dialer remembers why it could not connect: the driver's own error hides it.
type dialer struct {
	tunnel
	mu  sync.Mutex
	err error
}

func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.tunnel.DialContext(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	return conn, err
}

func (d *dialer) why() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// account is a user of the server; the zero value is no user.
type account struct{ name, password string }

// call connects through the host, as the account, runs do and closes.
func (s *Server) call(ctx context.Context, h host.Host, as account, do func(context.Context, *mongo.Client) error) (err error) {
	t, ok := host.As[tunnel](h)
	if !ok {
		return errNoTunnel
	}
	d := &dialer{tunnel: t}
	o := options.Client().ApplyURI("mongodb://" + s.Address(true, "") + "/").SetDialer(d).SetDirect(true).
		SetServerSelectionTimeout(callWait / 2).SetTimeout(callWait)
	if encrypted, err := s.speaksTLS(ctx, h); err != nil {
		return err
	} else if encrypted {
		config, err := s.options.Client(ctx)
		if err != nil {
			return err
		}
		o.SetTLSConfig(config)
	}
	if as.name != "" {
		o.SetAuth(options.Credential{AuthSource: "admin", Username: as.name, Password: as.password})
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Disconnect(end))
	}()
	if err = do(ctx, client); err != nil && errors.Is(d.why(), login.ErrForbidden) {
		return errNoTunnel
	}
	return err
}

// ping proves that the account may log in.
func (s *Server) ping(ctx context.Context, h host.Host, as account) error {
	return s.call(ctx, h, as, func(ctx context.Context, c *mongo.Client) error {
		return c.Database("admin").RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Err()
	})
}

// admitted proves that the account may log in, and use the databases of other programs.
func (s *Server) admitted(ctx context.Context, h host.Host, as account) error {
	if err := s.ping(ctx, h, as); err != nil || len(s.options.More) == 0 {
		return err
	}
	return s.call(ctx, h, as, func(ctx context.Context, c *mongo.Client) error {
		for _, name := range s.options.More {
			if err := c.Database(name).RunCommand(ctx, bson.D{{Key: "listCollections", Value: 1}, {Key: "nameOnly", Value: true}}).Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Codes of the server's errors.
const (
	unauthorized         = 13
	authenticationFailed = 18
	userExists           = 51003
)

// code returns the server's error code, 0 for another error.
func code(err error) int32 {
	if answer, is := errors.AsType[mongo.CommandError](err); is {
		return answer.Code
	}
	return 0
}

// answers proves that the server speaks the protocol and, for MongoDB, that it refuses logins
// without a password.
func (s *Server) answers() step.Proof {
	return step.NewProof("mongodb: answers", func(ctx context.Context, h host.Host) error {
		if err := s.listens(ctx, h); err != nil {
			return err
		}
		as := account{}
		if s.options.Flavor == MongoDB {
			var err error
			if as, err = s.account(ctx, h, DaemonUser); err != nil {
				return err
			}
		}
		err := s.ping(ctx, h, as)
		if errors.Is(err, errNoTunnel) {
			step.Warn(ctx, "could not verify that %s speaks MongoDB's protocol: %v", s.options.Unit, err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s at %s: %w", s.options.Unit, s.Address(true, ""), err)
		}
		if s.options.Flavor != MongoDB {
			return nil
		}
		err = s.call(ctx, h, account{}, func(ctx context.Context, c *mongo.Client) error {
			_, err := c.ListDatabaseNames(ctx, bson.D{})
			return err
		})
		if code(err) != unauthorized {
			return fmt.Errorf("%s: it accepts callers without a password (%v)\nhint: something else sets its options: systemctl cat %s", s.options.Unit, err, s.options.Unit)
		}
		return nil
	})
}
