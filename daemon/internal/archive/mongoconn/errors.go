package mongoconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// What went wrong, for callers that branch on it.
var (
	// ErrUnreachable: no server answered in time. A later try may succeed.
	ErrUnreachable = errors.New("unreachable")
	// ErrCredentials: the server does not accept the user and password.
	ErrCredentials = errors.New("user or password not accepted")
	// ErrNotMongoDB: something answers at the address, but not in MongoDB's protocol.
	ErrNotMongoDB = errors.New("answers, but not in MongoDB's protocol")
	// ErrRights: the user may not do what is needed.
	ErrRights = errors.New("no rights")
	// ErrNoPrimary: servers answer, and none of them takes writes. A later try may succeed.
	ErrNoPrimary = errors.New("no server that takes writes")
)

// Codes of MongoDB's error_codes.yml.
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
)

// notPrimary are the codes of a server that takes no writes, now or at all.
var notPrimary = []int{10107, 13435, 13436, 11600, 11602, 189, 91, 10058}

// IsNotPrimary reports whether a server has refused because it takes no writes, now or at all.
func IsNotPrimary(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && slices.ContainsFunc(notPrimary, server.HasErrorCode)
}

// IsUnanswered reports whether an operation had no answer: its connection broke, it took too
// long, or it had no connection because another one had broken and the driver had given up all of
// them.
func IsUnanswered(err error) bool {
	var cleared driver.RetryablePoolError
	return mongo.IsNetworkError(err) || mongo.IsTimeout(err) || errors.As(err, &cleared) && cleared.Retryable()
}

const hintPrimary = "name all members of the replica set and its name (replicaSet=...) in mongodb.uri, without directConnection=true; see rs.status() for whether it has a primary"

// Explain translates the driver's errors into those of this package. ctx is that of the
// operation: if its caller ended it, that is not the server's fault.
func Explain(ctx context.Context, err error) error {
	explained, _ := Explained(ctx, err)
	return explained
}

// Explained is like Explain, and reports whether it has changed the error. Errors of the driver
// cannot be compared: they hold lists.
func Explained(ctx context.Context, err error) (explained error, changed bool) {
	var server mongo.ServerError
	switch {
	case err == nil:
		return nil, false
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx), true
	case errors.As(err, new(*auth.Error)):
		return fmt.Errorf("%w: %w\nhint: see user, password and authSource in mongodb.uri", ErrCredentials, err), true
	case IsNotPrimary(err):
		return fmt.Errorf("%w: %w\nhint: %s", ErrNoPrimary, err, hintPrimary), true
	case IsUnanswered(err), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrUnreachable, err), true
	case errors.As(err, &server) && server.HasErrorCode(codeAuthenticationFailed):
		return fmt.Errorf("%w: %w\nhint: see user, password and authSource in mongodb.uri", ErrCredentials, err), true
	case errors.As(err, &server) && server.HasErrorCode(codeUnauthorized):
		return fmt.Errorf("%w: %w\nhint: mongodb.uri needs a user with the role readWrite on the database", ErrRights, err), true
	}
	return err, false
}

// ExplainOpen is like Explain, for a connection that was never established. Why no server could
// be selected is the error of its last heartbeat.
func (c *Conn) ExplainOpen(ctx context.Context, err error) error {
	err = Explain(ctx, err)
	beat := c.lastBeat.Load()
	switch {
	case !errors.Is(err, ErrUnreachable):
		return err
	case c.answered.Load() && !c.connected.Load():
		return fmt.Errorf("%w: %w\nhint: %s", ErrNoPrimary, err, hintPrimary)
	case beat == nil:
		return err
	}
	if hint := tlsdial.Hint("mongodb", *beat); hint != "" {
		return fmt.Errorf("%w: %w\nhint: %s", ErrUnreachable, *beat, hint)
	}
	if dial, ok := errors.AsType[*net.OpError](*beat); ok && dial.Op == "dial" || mongo.IsTimeout(*beat) {
		return fmt.Errorf("%w: %w\nhint: see the address in mongodb.uri, and whether MongoDB runs and lets this machine in", ErrUnreachable, *beat)
	}
	return fmt.Errorf("%w: %w\nhint: see address and port in mongodb.uri, and whether the server wants TLS (mongodb.tls)", ErrNotMongoDB, *beat)
}
