package site

import (
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/mysql"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// mysqlOptions returns the options of the host that has the role.
func (s *Site) mysqlOptions(h inventory.Host) (mysql.Options, error) {
	o := s.Inventory.MySQL
	bind, err := s.bind("mysql.bind", h, o.Bind, func(p program.Servers) bool { return p.MySQL })
	return mysql.Options{Port: o.Port, Bind: bind, Adopt: o.Adopt}, err
}

// MySQLSteps returns the steps that install the server on the host that has the role, and prove it.
func (s *Site) MySQLSteps(h inventory.Host) ([]step.Step, error) {
	return s.serverSteps(h, s.mysql.Steps)
}

// SharesMySQL reports whether a program on a host has filters in the MariaDB of the role.
func (s *Site) SharesMySQL(h inventory.Host, p program.Program) bool {
	given, err := s.given(h, p)
	return err == nil && p.Servers.MySQL && s.mysql != nil && !given.Has("mysql.addr")
}

// mysqlPasswordPath is the path of the file that a program's mysql.password_file names.
func mysqlPasswordPath(p program.Program) string { return p.ConfigDir() + "/mysql.password" }

// MySQLPasswordFile is the step that brings the password of MariaDB to a host whose program
// uses it.
func (s *Site) MySQLPasswordFile(p program.Program, group string) step.Wish {
	return secret.PasswordFile("MySQL", mysqlPasswordPath(p), group, s.mysqlPassword)
}
