package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// Numbers of the server's errors, as its manual lists them.
const (
	erNoDatabasePrivilege = 1044
	erAccessDenied        = 1045
	erUnknownDatabase     = 1049
	erTooManyConnections  = 1040
	erHostNotAllowed      = 1130
	erNoTablePrivilege    = 1142
	erNoSuchTable         = 1146
	erTooManyOfUser       = 1203
	erNoPrivilege         = 1227
	erOptionPrevents      = 1290
	erReadOnlyTransaction = 1792
	erReadOnlyMode        = 1836
)

// errNoSpace are those of a server whose disk is full.
var errNoSpace = []uint16{1021, 1026, 1114}

func isNoSpace(err error) bool {
	return err != nil && (slices.Contains(errNoSpace, errorNumber(err)) || strings.Contains(err.Error(), "error 28 from storage engine"))
}

// explain says what an error of the server means to an operator.
func (o Options) explain(err error) error {
	if err == nil || strings.Contains(err.Error(), "\nhint: ") && !errors.As(err, new(*demandError)) {
		return err
	}
	hint := tlsdial.Hint("mysql", err)
	switch n := errorNumber(err); {
	case hint != "":
	case n == erAccessDenied:
		hint = "check mysql.user and mysql.password_file, and whether the server wants TLS of that user (mysql.tls)"
	case n == erUnknownDatabase, n == erNoDatabasePrivilege, n == erNoTablePrivilege, n == erNoPrivilege, n == erHostNotAllowed:
		hint = "`urifilter mysql grant` prints what an administrator of the server is to run"
	case n == erTooManyConnections, n == erTooManyOfUser:
		hint = "raise max_connections there, or max_user_connections"
	case n == erOptionPrevents, n == erReadOnlyMode, n == erReadOnlyTransaction:
		hint = "the server is read-only: name the primary in mysql.addr"
	case errors.Is(err, mysql.ErrNoTLS):
		hint = "the server has no TLS: set mysql.tls: false, or give it a certificate"
	case errors.As(err, new(*net.DNSError)):
		hint = "check mysql.addr"
	case isDial(err):
		hint = "is MariaDB running there? (systemctl status mariadb)"
	}
	err = fmt.Errorf("mysql %s: %w", o.Addr, err)
	if hint != "" {
		err = fmt.Errorf("%w\nhint: %s", err, hint)
	}
	return err
}

// trouble gives an error of the server the engine's name. Nothing was done of what it is of.
func (s *Store) trouble(err error) error {
	switch {
	case err == nil, errors.As(err, new(*engine.UnknownFilterError)), errors.As(err, new(*engine.SpecError)),
		errors.Is(err, engine.ErrUnavailable), errors.Is(err, engine.ErrConflict), errors.Is(err, context.Canceled):
		return err
	case isNoSpace(err):
		return fmt.Errorf("%w: %w\nhint: free space on MariaDB's disk", engine.ErrNoSpace, s.opt.explain(err))
	}
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, s.opt.explain(err))
}

// Numbers of the server's errors that say that another statement was in the way.
const (
	erLockWait = 1205
	erDeadlock = 1213
)

// errorNumber is that of the server's error; 0: it is none.
func errorNumber(err error) uint16 {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
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
