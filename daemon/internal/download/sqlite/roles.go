package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// Hold implements download.Roles.
func (s *Store) Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error) {
	var held []string
	err := s.write(ctx, len(names), func(t *tx) error {
		held = nil
		for _, name := range names {
			n, err := t.w.execCount(`INSERT INTO roles (name, owner, until) VALUES (?, ?, ?)
				ON CONFLICT DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE owner = excluded.owner OR until <= ?`,
				name, owner, t.now+ttl.Milliseconds(), t.now)
			if err != nil {
				return err
			}
			if n > 0 && !slices.Contains(held, name) {
				held = append(held, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// LetGo implements download.Roles.
func (s *Store) LetGo(ctx context.Context, owner string, names []string) error {
	return s.write(ctx, len(names), func(t *tx) error {
		for _, name := range names {
			if err := t.w.exec("DELETE FROM roles WHERE name = ? AND owner = ?", name, owner); err != nil {
				return err
			}
		}
		return nil
	})
}

// Holders implements download.Roles.
func (s *Store) Holders(ctx context.Context, prefix string) (map[string]string, error) {
	holders := map[string]string{}
	err := s.each(ctx, func(rows *sql.Rows) error {
		var name, owner string
		if err := rows.Scan(&name, &owner); err != nil || !strings.HasPrefix(name, prefix) {
			return err
		}
		holders[name] = owner
		return nil
	}, "SELECT name, owner FROM roles WHERE name >= ? AND name < ? AND until > ?", prefix, prefix+"\U0010ffff", s.now())
	return holders, err
}
