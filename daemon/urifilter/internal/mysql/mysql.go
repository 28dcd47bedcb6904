// Package mysql holds the commands that prepare a MariaDB for filters: the database, the user and
// the tables. The package daemon/internal/store/mysql defines the contents of the tables.
package mysql

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
	mysqlstore "github.com/cr-clawer/urifilter/daemon/internal/store/mysql"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

// New makes the command mysql.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mysql",
		Short: "Prepare a MariaDB server for filters with store: mysql",
		Long: `Make the MariaDB that the settings name (mysql.addr) ready for filters with
"store: mysql": its database, the daemon's user and the tables.`,
		Example: `  urifilter mysql grant | sudo mariadb     # on the server, as its administrator
  urifilter mysql init                     # then from where the daemon runs`,
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newGrant(), newInit())
	return cmd
}

func fromFlag(cmd *cobra.Command, from *string) {
	cmd.Flags().StringVar(from, "from", "", "`host` from which the user may log in, as the server calls it, such as 10.0.0.% (default: any; for a socket localhost)")
}

// host is the host from which the user may log in.
func host(from string, o mysqlstore.Options) string {
	switch {
	case from != "":
		return from
	case strings.HasPrefix(o.Addr, "/"):
		return "localhost"
	}
	return "%"
}

var (
	errNone       = errors.New("mysql.addr: none is set\nhint: name the server in the settings (--config) or by URIFILTER_MYSQL_ADDR")
	errNoPassword = errors.New("mysql.password_file: none is set: everybody could log in as the daemon's user\nhint: (umask 077; openssl rand -hex 24 >mysql-password), and name that file")
)

// load reads the settings.
func load(file string) (configs.Config, mysqlstore.Options, error) {
	cfg, err := configs.Load(settings.Path(file), os.Environ())
	if err == nil {
		err = cfg.Validate()
	}
	switch {
	case err != nil:
	case cfg.MySQL.Addr == "":
		err = errNone
	}
	if err != nil {
		return cfg, mysqlstore.Options{}, err
	}
	o, err := server.MySQLOptions(cfg.MySQL, nil)
	return cfg, o, err
}

func newInit() *cobra.Command {
	var file, from, admin, passwordFile string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create the tables and, with --admin, the database and the user",
		Long: `Log in as the settings say, look whether the server is as the daemon wants it, and make
the tables that all filters share. The daemon does the same when it starts, and makes a
table for each filter. What is there is not changed.

With --admin what "urifilter mysql grant" prints is run first, as that user.`,
		Example: `  urifilter mysql init
  urifilter mysql init --admin root --admin-password-file ./root-password`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, o, err := load(file)
			if err != nil {
				return err
			}
			if admin != "" {
				if cfg.MySQL.PasswordFile == "" {
					return errNoPassword
				}
				password, err := secret.Read(passwordFile)
				if err != nil {
					return fmt.Errorf("--admin-password-file: %w", err)
				}
				if err := mysqlstore.Grant(cmd.Context(), o, host(from, o), admin, password); err != nil {
					return err
				}
			} else if passwordFile != "" {
				return command.UsageError{Err: errors.New("--admin-password-file: want --admin with it")}
			}
			return initialize(cmd, cfg, o)
		},
	}
	settings.Flag(cmd, &file)
	fromFlag(cmd, &from)
	cmd.Flags().StringVar(&admin, "admin", "", "`user` of the server that may create databases and users")
	cmd.Flags().StringVar(&passwordFile, "admin-password-file", "", "`file` with that user's password (default: no password)")
	return cmd
}

// initialize makes the tables, and prints what exists.
func initialize(cmd *cobra.Command, cfg configs.Config, o mysqlstore.Options) error {
	found, err := mysqlstore.Initialize(cmd.Context(), mysqlstore.Config{Options: o, Durable: cfg.Durability == "always"})
	if err != nil {
		return err
	}
	tables := "unchanged"
	if found.Made {
		tables = "made"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "mysql %s: MariaDB %s; database %s: tables %s, %d filters\n", o.Addr, found.Version, o.Database, tables, found.Filters)
	return err
}

func newGrant() *cobra.Command {
	var file, from string
	cmd := &cobra.Command{
		Use:   "grant",
		Short: "Print the statements that create the database and the user",
		Long: `Print the statements by which an administrator of the server makes the database and the
user of the settings. They can be run again, and change nothing then; the password of a
user who is there stays. The output has the password of mysql.password_file in it.`,
		Example: "  urifilter mysql grant --config /etc/urifilter/urifilter.yaml | sudo mariadb",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, o, err := load(file)
			if err != nil {
				return err
			}
			if cfg.MySQL.PasswordFile == "" {
				return errNoPassword
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(mysqlstore.Grants(o, host(from, o)), ";\n")+";")
			return err
		},
	}
	settings.Flag(cmd, &file)
	fromFlag(cmd, &from)
	return cmd
}
