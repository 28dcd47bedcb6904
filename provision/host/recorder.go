package host

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Recorder is a Host that runs nothing and keeps the commands, as a script that a host can run by
// itself, as root. What asks the host gets no answer. It is not safe for concurrent use.
type Recorder struct {
	name   string
	script strings.Builder
}

// NewRecorder returns a Recorder for the host with a name.
func NewRecorder(name string) *Recorder { return &Recorder{name: name} }

// Name implements Host.
func (r *Recorder) Name() string { return r.name }

// Run implements Host. What changes nothing is not kept.
func (r *Recorder) Run(_ context.Context, c Command) (Output, error) {
	if c.Look || c.Watch {
		return Output{}, nil
	}
	input := ""
	if c.Stdin != nil {
		data, err := io.ReadAll(c.Stdin)
		if err != nil {
			return Output{}, err
		}
		input = "printf %s " + Quote(base64.StdEncoding.EncodeToString(data)) + " | base64 -d | "
	}
	shell := "sh -c "
	if c.User != "" && c.User != "root" {
		shell = "runuser -u " + Quote(c.User) + " -- sh -c "
	}
	fmt.Fprintf(&r.script, "%s%s%s || failed=1\n", input, shell, Quote(c.Script))
	return Output{}, nil
}

// Upload implements Host. A host cannot upload to itself.
func (r *Recorder) Upload(context.Context, Upload) error {
	return errors.New("a host cannot upload a file to itself")
}

// Script returns what was recorded. It sets failed=1 if one of the commands fails.
func (r *Recorder) Script() string { return r.script.String() }
