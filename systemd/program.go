package systemd

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Program is what the units say about a program, the same on every host. Its command line has
// `serve --config FILE` or those of Daemons, `config check --config FILE` and `service install`.
type Program struct {
	// Name is the name of the binary, and the beginning of the names of units, folders, user
	// and variables: a lower-case letter, then lower-case letters and digits.
	Name string
	// Does completes "NAME: ...", in one line: "remembers which items have been seen".
	Does string
	// Documentation is a URL.
	Documentation string
	// Daemons are the commands of its command line that can be the daemon of a machine. The
	// first is the default. Nil: serve.
	Daemons []string
	// Jails means that it runs code of others, in child processes that it confines with
	// Landlock and seccomp, so it needs the system calls for those.
	Jails bool
	// Job is what it does on a schedule besides the daemon; nil: nothing.
	Job *Job
}

// Job is a command that a timer or a crontab starts.
type Job struct {
	// Name follows the program's name in the names of the job's units: writeback.
	Name string
	// Does completes "NAME: ...", in one line.
	Does string
	// Args are the words of its command line, before --config.
	Args []string
}

// Commands returns Daemons, at least one.
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

// The program's files on a host, unless somebody says otherwise. A link in the path of the
// binary is followed at each start, so that changing the link switches the release.
func (p Program) Root() string      { return "/opt/" + p.Name }
func (p Program) Binary() string    { return p.Root() + "/current/" + p.Name }
func (p Program) ConfigDir() string { return "/etc/" + p.Name }
func (p Program) Config() string    { return p.ConfigDir() + "/" + p.Name + ".yaml" }
func (p Program) EnvFile() string   { return p.ConfigDir() + "/" + p.Name + ".env" }
func (p Program) DataDir() string   { return "/var/lib/" + p.Name }

// Crontab is the file that runs its job with cron. Its name has no dot, because cron ignores
// files whose names have one.
func (p Program) Crontab() string { return "/etc/cron.d/" + p.Name }

// TokenName is the file, in the folder of the settings, that contains only the token with
// which the host's own jobs call the daemon.
const TokenName = "operator.token"

// TokenFile is the path of that file.
func (p Program) TokenFile() string { return path.Join(p.ConfigDir(), TokenName) }

// User is the user that runs the daemon, and the group.
func (p Program) User() string { return p.Name }

// Env returns the name of a variable of its environment: TOKEN is NAME_TOKEN.
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
