package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// waitForRead waits until the commits of others that c has read are durable; if c is a transaction, its
// commit waits for them. A call that has changed nothing itself is answered only then.
//
// A transaction that commits gives up its locks before its part of the redo log is on the disk. Until
// it is there, others can read what was changed, and a crash of the server takes the change back. The
// commit of a transaction that has itself changed something waits for the log, with all that was
// committed before (innodb_flush_log_at_trx_commit = 1); one that has only read does not wait.
//
// A server that was started anew knows nothing of this. So c must be the connection, or the
// transaction, with which the caller has read; a pool may use another connection for each statement.
func (s *Store) waitForRead(ctx context.Context, c querier) error {
	if !s.opt.Durable {
		return nil
	}
	batch := rand.Uint64()
	// Together these change nothing that others can see.
	changes := []string{
		fmt.Sprintf("insert into %s (batch, k, state) values (%d, '', 0)", reservedTable, batch),
		fmt.Sprintf("delete from %s where batch = %d", reservedTable, batch),
	}
	l, err := readLog(ctx, c)
	if err != nil || l.written(l) {
		return err
	}
	if err = s.change(ctx, c, changes); !isNoSpace(err) || l.current == 0 {
		return err
	}
	// What has no space to change anything still writes its log, every second.
	for began := time.Now(); time.Since(began) < patience && s.pause(retryEvery); {
		if now, err := readLog(ctx, c); err != nil || now.written(l) {
			return err
		}
	}
	return err
}

// change carries out statements together.
func (s *Store) change(ctx context.Context, c querier, statements []string) error {
	conn, ok := c.(*sql.Conn)
	if !ok {
		return execAll(ctx, c, statements)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := execAll(ctx, tx, statements); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func execAll(ctx context.Context, c querier, statements []string) error {
	for _, statement := range statements {
		if _, err := c.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// logPlaces are the end of the redo log, and of the part that is on the disk; zero: the server does
// not tell.
type logPlaces struct{ current, flushed uint64 }

// written tells whether what was in the log when it was read as then is on the disk.
func (l logPlaces) written(then logPlaces) bool {
	return then.current > 0 && l.flushed >= then.current
}

func readLog(ctx context.Context, c querier) (l logPlaces, err error) {
	rows, err := c.QueryContext(ctx, "show global status where variable_name in ('Innodb_lsn_current', 'Innodb_lsn_flushed')")
	if err != nil {
		return l, err
	}
	defer rows.Close()
	at := map[string]uint64{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return l, err
		}
		if at[name], err = strconv.ParseUint(value, 10, 64); err != nil {
			return logPlaces{}, nil // a server that does not tell: the changes make sure
		}
	}
	return logPlaces{at["Innodb_lsn_current"], at["Innodb_lsn_flushed"]}, errors.Join(rows.Err(), rows.Close())
}
