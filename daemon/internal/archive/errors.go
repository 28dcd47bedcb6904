package archive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"

	"github.com/cr-clawer/urifilter/daemon/internal/tlsdial"
)

// What went wrong, for those who branch on it.
var (
	// ErrNone: the archive has no version of that filter.
	ErrNone = errors.New("no version in the archive")
	// ErrRemoved: the version was removed, being old, while it was read.
	ErrRemoved = errors.New("was removed meanwhile")
	// ErrUnreachable: no server answered in time. A later try may succeed.
	ErrUnreachable = errors.New("unreachable")
	// ErrCredentials: the server does not accept the user and password.
	ErrCredentials = errors.New("user or password not accepted")
	// ErrNotMongoDB: something answers there, but not in MongoDB's protocol.
	ErrNotMongoDB = errors.New("answers, but not in MongoDB's protocol")
	// ErrRights: the user may not do there what an archive needs.
	ErrRights = errors.New("no rights")
)

// LeaseError is returned while another writes back the same filter.
type LeaseError struct {
	Filter string
	Owner  string    // host:pid, as it calls itself
	Until  time.Time // when the lease ends unless it is renewed, by the server's clock
}

func (e *LeaseError) Error() string {
	return fmt.Sprintf("filter %s: is being written back by %s, whose lease ends %s unless renewed", e.Filter, e.Owner, e.Until.UTC().Format(time.RFC3339))
}

// OvertakenError is returned by a writeback whose lease ran out, or whose version's
// number was taken, while it was under way. The archive is as the other left it;
// another writeback adds what this one wanted to.
type OvertakenError struct{ Filter string }

func (e *OvertakenError) Error() string {
	return fmt.Sprintf("filter %s: another writeback took over; nothing was changed\nhint: write back again", e.Filter)
}

// MismatchError is returned where bits of different bit-maps would have been mixed.
type MismatchError struct {
	Filter  string
	Version string // in the archive
	Reason  string
	Hint    string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("filter %s: version %s: %s\nhint: %s", e.Filter, e.Version, e.Reason, e.Hint)
}

// DamageError is returned for a stripe of a version that is not what was archived.
type DamageError struct {
	Filter  string
	Version string
	Stripe  int
	Reason  string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("filter %s: version %s: stripe %d: %s\nhint: `urifilter bitmap restore --version OLDER %s` takes an older version, `urifilter bitmap list` shows them; to write back without this one: %s",
		e.Filter, e.Version, e.Stripe, e.Reason, e.Filter, switchOff(fmt.Sprintf(`{_id: %q}`, e.Version)))
}

// FormatError is returned for a version that a newer urifilter wrote.
type FormatError struct {
	Version string
	Format  int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("version %s: format %d: this urifilter reads the formats %d and %d\nhint: use the newer urifilter that wrote it", e.Version, e.Format, documentFormat, documentFormatGrowing)
}

// switchOff is the command of mongosh that takes versions out of use.
func switchOff(which string) string {
	return fmt.Sprintf(`db.%s.updateMany(%s, {$set: {status: "off"}})`, versionsName, which)
}

// Codes of MongoDB's error_codes.yml.
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
)

// explain gives the driver's errors the names of this package. ctx is that of the
// operation: what its caller ended is not the server's fault.
func explain(ctx context.Context, err error) error {
	var login *auth.Error
	var server mongo.ServerError
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case errors.As(err, &login):
		return fmt.Errorf("%w: %w\nhint: see user, password and authSource in mongodb.uri", ErrCredentials, err)
	case mongo.IsTimeout(err), mongo.IsNetworkError(err), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case errors.As(err, &server) && server.HasErrorCode(codeAuthenticationFailed):
		return fmt.Errorf("%w: %w\nhint: see user, password and authSource in mongodb.uri", ErrCredentials, err)
	case errors.As(err, &server) && server.HasErrorCode(codeUnauthorized):
		return fmt.Errorf("%w: %w\nhint: mongodb.uri needs a user with the role readWrite on the database", ErrRights, err)
	}
	return err
}

// explainOpen is explain for a connection that was never there. Why the server could
// not be chosen is what its last heartbeat met.
func explainOpen(ctx context.Context, err error, beat *error) error {
	err = explain(ctx, err)
	if !errors.Is(err, ErrUnreachable) || beat == nil {
		return err
	}
	if hint := tlsdial.Hint("mongodb", *beat); hint != "" {
		return fmt.Errorf("%w: %w\nhint: %s", ErrUnreachable, *beat, hint)
	}
	var dial *net.OpError
	if errors.As(*beat, &dial) && dial.Op == "dial" || mongo.IsTimeout(*beat) {
		return fmt.Errorf("%w: %w\nhint: see the address in mongodb.uri, and whether MongoDB runs and lets this machine in", ErrUnreachable, *beat)
	}
	return fmt.Errorf("%w: %w\nhint: see address and port in mongodb.uri, and whether the server wants TLS (mongodb.tls)", ErrNotMongoDB, *beat)
}
