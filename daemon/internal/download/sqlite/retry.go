package sqlite

import (
	"context"
	"database/sql"
)

const retryTask = `UPDATE OR ROLLBACK tasks SET state = 0, not_before = ?, attempts = 0, abandoned = 0 WHERE id = ? AND +job = ? AND +state = 4 RETURNING queue`

// Retry implements download.Tasks.
func (s *Store) Retry(ctx context.Context, job int64, ids []string) (int, error) {
	retried := 0
	for first := true; first || len(ids) > 0; first = false {
		some := ids[:min(addTogether, len(ids))]
		ids = ids[len(some):]
		n := 0
		err := s.write(ctx, 1+len(some), func(t *tx) error {
			n = 0
			if _, err := t.live(job); err != nil {
				return err
			}
			for _, id := range some {
				err := t.w.each(func(rows *sql.Rows) error {
					var queue int
					err := rows.Scan(&queue)
					t.countMoved(job, queue, failed, waiting, 1)
					n++
					return err
				}, retryTask, t.now, idBytes(id), job)
				if err != nil {
					return err
				}
			}
			if n == 0 {
				return nil
			}
			return t.w.exec("UPDATE jobs SET reported = 0 WHERE id = ?", job)
		})
		if err != nil {
			return retried, err
		}
		retried += n
	}
	return retried, nil
}
