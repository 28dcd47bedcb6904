package mysql

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

// errorNumber is that of the server's error; 0: it is none.
func errorNumber(err error) uint16 {
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		return answer.Number
	}
	return 0
}

// outcome is what became of a statement that ended in an error.
type outcome int

const (
	refused outcome = iota // it was not carried out
	retried                // it was not carried out, as another one was in its way
	lost                   // the connection broke: carried out or not
)

// outcomeOf is the outcome of a statement by itself, or of the end of a transaction.
func outcomeOf(err error) outcome {
	switch n := errorNumber(err); {
	case n == erDeadlock, n == erLockWait, errors.Is(err, driver.ErrBadConn): // the driver's word for: not sent
		return retried
	case n != 0, isDial(err), errors.As(err, new(notSentError)):
		return refused
	}
	return lost
}

// notSentError is an error of a batch that was certainly not carried out.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// notSent is the error of what came before a batch, or before the end of its transaction.
func notSent(err error) error {
	if err != nil && outcomeOf(err) == lost {
		return notSentError{err}
	}
	return err
}

// isDial tells whether err came before anything was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
