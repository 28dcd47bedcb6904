package mysql

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	mysqlstore "github.com/cr-clawer/urifilter/daemon/internal/store/mysql"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

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
