package mysql

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// Privileges are what the daemon's user needs on the database: to create, use and drop tables.
const Privileges = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP"

// Grants returns the statements by which an administrator creates the database and the user of o,
// who may log in from host, which is in the server's notation: % for all hosts. They do not
// change anything that exists. They contain the password.
func Grants(o Options, host string) []string {
	user := quote(o.User) + "@" + quote(host)
	// In a grant, an underscore in the name of a database stands for any character.
	pattern := strings.ReplaceAll(o.Database, "_", `\_`)
	return []string{
		"CREATE DATABASE IF NOT EXISTS `" + o.Database + "`",
		"CREATE USER IF NOT EXISTS " + user + " IDENTIFIED BY " + quote(o.Password),
		"GRANT " + Privileges + " ON `" + pattern + "`.* TO " + user,
	}
}

// quote writes a text as a string of SQL.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

// Grant runs Grants on the server of o as an administrator.
func Grant(ctx context.Context, o Options, host, admin, password string) error {
	as := o
	as.User, as.Password, as.Database = admin, password, ""
	db, err := as.open(map[string]string{"sql_mode": "''"}, replyMost)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range Grants(o, host) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			what, _, _ := strings.Cut(statement, " IDENTIFIED")
			return fmt.Errorf("mysql %s: as %s: %s: %w", o.Addr, admin, what, err)
		}
	}
	return nil
}

// Initialized is what Initialize has found.
type Initialized struct {
	Version string // of the server
	Made    bool   // tables were missing
	Filters int
}

// Initialize makes the tables that all filters share, as Open does, and returns what it found.
func Initialize(ctx context.Context, c Config) (i Initialized, err error) {
	c.Log = slog.New(slog.DiscardHandler)
	s, err := Open(ctx, c)
	if err != nil {
		return i, err
	}
	defer s.Close()
	entries, err := readEntries(ctx, s.admin)
	if err != nil {
		return i, c.explain(err)
	}
	return Initialized{Version: s.version, Made: s.made, Filters: len(entries)}, nil
}
