package bitmap

import (
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/systemd"
)

func TestCommandTellsNoToken(t *testing.T) {
	t.Parallel()
	c := CLI{CLI: program.CLI{Program: systemd.Urifilter(), Binary: "/opt/x y/urifilter", TokenFile: "/etc/t", User: "urifilter"}, Config: "/etc/u.yaml"}.command("restore", "--version", "uri-1; id", "uri")
	want := "exec '/opt/x y/urifilter' bitmap restore --version 'uri-1; id' uri --config /etc/u.yaml"
	if c.User != "urifilter" || !strings.HasSuffix(c.Script, want) {
		t.Errorf("%+v, want it to end in %s", c, want)
	}
}

func TestErrorsAreTheProgramsOwnWords(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"asking the daemon at http://127.0.0.1:8000: it runs here\nurifilter: uri: 409 lease_held\nhint: try again\n": "bitmap update: uri: 409 lease_held\nhint: try again",
		"urifilter: mongodb.uri: none is set\n": "bitmap update: mongodb.uri: none is set",
		"sh: 3: exec: /opt/x: not found\n":      "update: exit code 127: sh: 3: exec: /opt/x: not found",
	} {
		err := CLI{CLI: program.CLI{Program: systemd.Urifilter()}}.explain(&host.CommandError{Script: "update", Output: host.Output{Stderr: said, Code: 127}}, "update")
		if err.Error() != want {
			t.Errorf("%q: %q, want %q", said, err, want)
		}
	}
	lost := &host.ConnectionError{Host: "a", Err: errors.New("x")}
	if (CLI{}).explain(lost, "update") != error(lost) {
		t.Error("a lost connection is not told as one")
	}
}
