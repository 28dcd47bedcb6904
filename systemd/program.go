package systemd

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Program is what the units say of a program, the same on every host. Its command line
// has `serve --config FILE` or what Daemons say, `config check --config FILE` and `service install`.
type Program struct {
	// Name is that of the binary, and the beginning of the names of units, folders, user
	// and variables. A small letter, then small letters and digits.
	Name string
	// Does completes "NAME: ...", in one line: "remembers which items have been seen".
	Does string
	// Documentation is a URL.
	Documentation string
	// Daemons are the commands of its command line that can be the daemon of a machine, the
	// first unless somebody chooses. Nil: serve.
	Daemons []string
	// Jails is that it runs code of others, in children that it locks up by Landlock and
	// seccomp, for which it needs their system calls.
	Jails bool
	// Job is what it does on a schedule beside the daemon; nil: nothing.
	Job *Job
}

// Job is a command that a timer or a crontab starts.
type Job struct {
	// Name is the part of its units' names behind the program's: writeback.
	Name string
	// Does completes "NAME: ...", in one line.
	Does string
	// Args are the words of its command line, before --config.
	Args []string
}

// Commands are Daemons, one at least.
func (p Program) Commands() []string {
	if len(p.Daemons) == 0 {
		return []string{"serve"}
	}
	return p.Daemons
}

// Service is the daemon's unit, Socket that of its port, and Retry the timer that tries
// again after a crash loop.
func (p Program) Service() string { return p.Name + ".service" }
func (p Program) Socket() string  { return p.Name + ".socket" }
func (p Program) Retry() string   { return p.Name + "-retry.timer" }

// JobService and JobTimer are the units of its job; "" without one.
func (p Program) JobService() string { return p.ofJob(".service") }
func (p Program) JobTimer() string   { return p.ofJob(".timer") }

func (p Program) ofJob(kind string) string {
	if p.Job == nil {
		return ""
	}
	return p.Name + "-" + p.Job.Name + kind
}

// Where the program's files are on a host, unless somebody says otherwise. A link in the
// path of the binary is followed at each start, so that a release is switched by it.
func (p Program) Root() string      { return "/opt/" + p.Name }
func (p Program) Binary() string    { return p.Root() + "/current/" + p.Name }
func (p Program) ConfigDir() string { return "/etc/" + p.Name }
func (p Program) Config() string    { return p.ConfigDir() + "/" + p.Name + ".yaml" }
func (p Program) EnvFile() string   { return p.ConfigDir() + "/" + p.Name + ".env" }
func (p Program) DataDir() string   { return "/var/lib/" + p.Name }

// Crontab is the file with its job for cron. Its name has no dot: cron reads no file that
// has one.
func (p Program) Crontab() string { return "/etc/cron.d/" + p.Name }

// TokenName is the file, in the folder of the settings, that holds, alone, the token by
// which the host's own jobs call the daemon.
const TokenName = "operator.token"

// TokenFile is that file.
func (p Program) TokenFile() string { return path.Join(p.ConfigDir(), TokenName) }

// User is who runs the daemon, and the group.
func (p Program) User() string { return p.Name }

// Env is a variable of its environment: TOKEN is NAME_TOKEN.
func (p Program) Env(name string) string { return strings.ToUpper(p.Name) + "_" + name }

var (
	programName = regexp.MustCompile(`^[a-z][a-z0-9]{0,30}$`)
	jobWord     = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	daemonWords = regexp.MustCompile(`^[a-z]+( --[a-z]+)*$`)
	plainText   = regexp.MustCompile(`^[A-Za-z0-9 ,.:/_-]+$`)
)

// Validate returns all faults joined.
func (p Program) Validate() error {
	var faults []error
	check := func(field, value string, form *regexp.Regexp) {
		if !form.MatchString(value) {
			faults = append(faults, fmt.Errorf("program %q: %s %q: want %s", p.Name, field, value, form))
		}
	}
	check("name", p.Name, programName)
	check("does", p.Does, plainText)
	check("documentation", p.Documentation, plainText)
	for _, words := range p.Daemons {
		check("daemon", words, daemonWords)
	}
	if p.Job != nil {
		check("job", p.Job.Name, jobWord)
		check("job does", p.Job.Does, plainText)
		for _, word := range p.Job.Args {
			check("job argument", word, jobWord)
		}
	}
	return errors.Join(faults...)
}
