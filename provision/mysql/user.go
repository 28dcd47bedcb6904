package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// passwordFile holds the password of the daemons' user.
var passwordFile = secret.File{Path: passwordPath, Temporary: "/etc/mysql/.urifilter.XXXXXX", Owner: "root:root", Mode: "0600"}

// makeUser tells the server the password in the file, and hides it from everyone else.
const makeUser = `secret=$(cat ` + passwordPath + `) && printf "
create database if not exists ` + name + `;
create user if not exists '` + name + `'@'%%' identified by '$secret';
alter user '` + name + `'@'%%' identified by '$secret';
grant ` + privileges + ` on ` + name + `.* to '` + name + `'@'%%';
" | mariadb`

// logIn tries the password in the file over the network, as daemons do. The password is in no
// process list.
const logIn = `secret=$(cat ` + passwordPath + `) && printf 'select 1' | MYSQL_PWD="$secret" mariadb --no-defaults --protocol=tcp --host=127.0.0.1 --port=%d --user=` + name + ` --batch --skip-column-names ` + name + ` 2>&1`

// Password reads the password of the daemons' user from the server's host, or returns secret.ErrNoPassword.
func (s *Server) Password(ctx context.Context, h host.Host) (string, error) {
	return secret.Read(ctx, h, passwordPath, "remove the file, and another is made")
}

// user makes the password, the database, and the user who may use it.
func (s *Server) user() step.Wish {
	return step.NewWish("mysql: database and user", func(ctx context.Context, h host.Host) (*step.Change, error) {
		change := &step.Change{Summary: "make the database and the user " + name, Apply: func(ctx context.Context) error {
			script := makeUser
			if _, err := s.Password(ctx, h); errors.Is(err, secret.ErrNoPassword) {
				script = "(" + passwordFile.Script() + ") && " + makeUser
			} else if err != nil {
				return err
			}
			_, err := h.Run(ctx, host.Command{Script: script, Root: true, Secret: true})
			return err
		}}
		if _, err := s.Password(ctx, h); errors.Is(err, secret.ErrNoPassword) {
			return change, nil
		} else if err != nil {
			return nil, err
		}
		u, err := host.LookAtUnit(ctx, h, unit+".service")
		if err != nil || !u.Active {
			return nil, err // the step before reports it
		}
		why, err := s.login(ctx, h)
		if err != nil || why == "" {
			return nil, err
		}
		return change, nil
	})
}

// login tries to log in as daemons do, and says why that is not enough; "": it is.
func (s *Server) login(ctx context.Context, h host.Host) (string, error) {
	out, err := h.Run(ctx, host.Command{Script: fmt.Sprintf(logIn, s.options.Port), Root: true, Secret: true, OK: []int{1}})
	if err != nil {
		return "", err
	}
	if out.Code != 0 {
		return strings.TrimSpace(out.Stdout), nil
	}
	grants, err := sql(ctx, h, "show grants for '"+name+"'@'%'", false)
	if err != nil {
		return "", err
	}
	if !strings.Contains(grants, "GRANT "+privileges+" ON `"+name+"`.*") {
		return "the user " + name + " lacks privileges: " + privileges, nil
	}
	return "", nil
}
