// Package redolog makes durable what a connection to MariaDB has read.
//
// A transaction that commits gives up its locks before its part of the redo log is on the disk. Until
// it is there, others can read what was changed, and a crash of the server takes the change back. The
// commit of a transaction that has itself changed something waits for the log, with all that was
// committed before (innodb_flush_log_at_trx_commit = 1); one that has only read does not wait.
//
// A server that was started anew knows nothing of this. So a caller must use the connection, or the
// transaction, with which it has read.
package redolog

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
)

// Querier is a *sql.Conn without a transaction, or a *sql.Tx. A pool is neither: it may use another
// connection for each statement.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Wait waits until what c has read is on the server's disk. If c is a transaction, its commit waits.
// The changes are statements that together change nothing that others can see. It is for one goroutine.
func Wait(ctx context.Context, c Querier, changes ...string) error {
	if done, err := written(ctx, c); err != nil || done {
		return err
	}
	conn, ok := c.(*sql.Conn)
	if !ok {
		return change(ctx, c, changes)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := change(ctx, tx, changes); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func change(ctx context.Context, c Querier, changes []string) error {
	for _, statement := range changes {
		if _, err := c.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// written tells whether the whole log is on the disk.
func written(ctx context.Context, c Querier) (bool, error) {
	rows, err := c.QueryContext(ctx, "show global status where variable_name in ('Innodb_lsn_current', 'Innodb_lsn_flushed')")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	at := map[string]uint64{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return false, err
		}
		if at[name], err = strconv.ParseUint(value, 10, 64); err != nil {
			return false, nil // a server that does not tell: the changes make sure
		}
	}
	current, flushed := at["Innodb_lsn_current"], at["Innodb_lsn_flushed"]
	return current > 0 && flushed >= current, errors.Join(rows.Err(), rows.Close())
}
