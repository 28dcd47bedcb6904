// Package mysql holds the commands that prepare a MariaDB for filters: the database, the user and
// the tables. The package daemon/internal/store/mysql defines the contents of the tables.
package mysql

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
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
