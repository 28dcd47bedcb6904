package servers

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// PieceItems bounds a pipeline: at most this many commands are sent before their replies are
// read.
const PieceItems = 4000

// Verdict is what became of a command that sets an item if it does not exist.
type Verdict int

const (
	Seen Verdict = iota
	Fresh
	Unknown // the connection broke before the reply: executed or not
	Undone  // not executed, or in a stripe that has lost its head and will be replaced
)

// VerdictOf tells what became of a command that ended in err.
func VerdictOf(err error) Verdict {
	if isRedisError(err) || notSent(err) {
		return Undone
	}
	return Unknown
}

func isRedisError(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, redis.ErrClosed)
}

// notSent tells whether err occurred before the command left this process.
func notSent(err error) bool {
	return isDial(err) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) ||
		errors.Is(err, redis.ErrClosed) || errors.Is(err, errReplica) || errors.Is(err, ErrNotSynced)
}

// ErrNotAsked is the error of commands that were not sent because another had failed.
var ErrNotAsked = fmt.Errorf("not asked: %w", redis.ErrClosed)
