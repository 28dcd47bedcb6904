package mysql

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	mysqlstore "github.com/cr-clawer/urifilter/daemon/internal/store/mysql"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

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
