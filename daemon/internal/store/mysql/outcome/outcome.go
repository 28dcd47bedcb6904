// Package outcome tells what became of a statement that ended in an error.
package outcome

import (
	"database/sql/driver"
	"errors"
	"net"

	"github.com/go-sql-driver/mysql"
)

// Numbers of the server's errors that say that another statement was in the way.
const (
	erLockWait = 1205
	erDeadlock = 1213
)

// Number is that of the server's error; 0: it is none.
func Number(err error) uint16 {
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		return answer.Number
	}
	return 0
}

// Outcome is what became of a statement that ended in an error.
type Outcome int

const (
	Refused Outcome = iota // it was not carried out
	Retried                // it was not carried out, as another one was in its way
	Lost                   // the connection broke: carried out or not
)

// Of is the outcome of a statement by itself, or of the end of a transaction.
func Of(err error) Outcome {
	switch n := Number(err); {
	case n == erDeadlock, n == erLockWait, errors.Is(err, driver.ErrBadConn): // the driver's word for: not sent
		return Retried
	case n != 0, IsDial(err), errors.As(err, new(notSentError)):
		return Refused
	}
	return Lost
}

// notSentError is an error of a batch that was certainly not carried out.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// NotSent is the error of what came before a batch, or before the end of its transaction.
func NotSent(err error) error {
	if err != nil && Of(err) == Lost {
		return notSentError{err}
	}
	return err
}

// IsDial tells whether err came before anything was sent.
func IsDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
