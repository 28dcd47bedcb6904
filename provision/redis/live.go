package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// readyWait is how long a server may take to load its data.
const readyWait = 10 * time.Minute

// mark stands between the replies of redis-cli, which come as plain text.
const mark = "--urifilter--"

// client talks to the server on its own host, through redis-cli. Commands, and with
// them the password, go to its standard input.
type client struct {
	host     host.Host
	cli      string
	port     int
	password string // "": none
	tls      string // arguments of redis-cli; "": plain
}

// fault matches an error that the server answers with.
var fault = regexp.MustCompile(`^(?:\(error\) )?((?:ERR|NOAUTH|WRONGPASS|NOPERM|MISCONF|LOADING|MASTERDOWN|READONLY|OOM|DENIED|BUSY|NOREPLICAS)\b.*)`)

// noPassword matches what a server says to a password that it does not ask for, before
// and after version 6.
var noPassword = regexp.MustCompile(`without any password configured|but no password is set`)

// down matches what redis-cli says when nobody listens, or the connection ends.
var down = regexp.MustCompile(`(?m)^(?:Could not connect|Error: ).*$`)

// errAuth means that the server wants another password.
type errAuth struct{ said string }

func (e errAuth) Error() string { return e.said }

// errDown means that no server answers.
type errDown struct{ said string }

func (e errDown) Error() string { return e.said }

// listensBy reports whether a directive is that of the port by which the client calls.
func (c client) listensBy(d directive) bool {
	return d.key == "port" && c.tls == "" || d.key == "tls-port" && c.tls != ""
}

// send sends commands and returns their replies, or the first fault.
func (c client) send(ctx context.Context, commands ...string) ([]string, error) {
	var in strings.Builder
	if c.password != "" {
		in.WriteString("AUTH " + quoteArg(c.password) + "\n")
	}
	for _, command := range commands {
		in.WriteString("ECHO " + mark + "\n" + command + "\n")
	}
	script := fmt.Sprintf("command -v %s >/dev/null || { echo 'Could not connect: no %[1]s'; exit 0; }; %[1]s -h 127.0.0.1 -p %d%s 2>&1; :", c.cli, c.port, c.tls)
	asks := !slices.ContainsFunc(commands, func(command string) bool {
		return command != "PING" && !strings.HasPrefix(command, "CONFIG GET ") && !strings.HasPrefix(command, "INFO ")
	})
	out, err := c.host.Run(ctx, host.Command{Script: script, Stdin: strings.NewReader(in.String()), Secret: true, Root: true, Watch: asks})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.cli, err)
	}
	return parseReplies(out.Stdout, len(commands))
}

func parseReplies(text string, want int) ([]string, error) {
	if m := down.FindString(text); m != "" {
		return nil, errDown{m}
	}
	parts := strings.Split("\n"+text, "\n"+mark+"\n")
	if m := fault.FindStringSubmatch(strings.TrimSpace(parts[0])); m != nil && !noPassword.MatchString(m[1]) {
		return nil, replyError(m[1])
	}
	var replies []string
	for _, part := range parts[1:] {
		part = strings.TrimRight(part, "\r\n")
		if m := fault.FindStringSubmatch(part); m != nil {
			return nil, replyError(m[1])
		}
		replies = append(replies, part)
	}
	if len(replies) != want {
		return nil, fmt.Errorf("%d replies to %d commands: %s", len(replies), want, firstLine(text))
	}
	return replies, nil
}

// replyError turns what the server says into an error.
func replyError(said string) error {
	switch word, _, _ := strings.Cut(said, " "); word {
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return errAuth{said}
	}
	return errors.New(said)
}

func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return text
}

// config queries settings; the value of one that this version does not know is "".
func (c client) config(ctx context.Context, keys ...string) (map[string]string, error) {
	var commands []string
	for _, key := range keys {
		commands = append(commands, "CONFIG GET "+key)
	}
	replies, err := c.send(ctx, commands...)
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	for i, key := range keys {
		_, value, _ := strings.Cut(replies[i], "\n")
		got[key] = strings.TrimSpace(value)
	}
	return got, nil
}

// info queries a section of INFO.
func (c client) info(ctx context.Context, section string) (map[string]string, error) {
	replies, err := c.send(ctx, "INFO "+section)
	if err != nil {
		return nil, err
	}
	return host.Pairs(replies[0], ":"), nil
}

// ready waits until the server answers and has loaded its data. It does not wait for a
// server that wants another password, but returns that error.
func (c client) ready(ctx context.Context) error {
	begun := time.Now()
	for {
		_, err := c.send(ctx, "PING")
		if err == nil {
			return nil
		}
		loading := strings.HasPrefix(err.Error(), "LOADING")
		_, isDown := err.(errDown)
		switch waited := time.Since(begun); {
		case ctx.Err() != nil:
			return ctx.Err()
		case !loading && !isDown:
			return err
		case isDown && waited > 15*time.Second, waited > readyWait:
			return fmt.Errorf("port %d: no answer after %s: %w", c.port, waited.Round(time.Second), err)
		case loading:
			step.Say(ctx, "redis: loading its data, %s", waited.Round(time.Second))
		}
		if err := host.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// appendOnly turns on the append-only file of a server that has none, and returns when all
// data of the server is in the file. If the server were restarted with the setting alone, it
// would begin with an empty file, and forget.
func (c client) appendOnly(ctx context.Context) error {
	now, err := c.config(ctx, "appendonly")
	if err != nil {
		return err
	}
	asked := now["appendonly"] != "yes" // for all data to be written to it
	if asked {
		if _, err := c.send(ctx, "CONFIG SET appendonly yes"); err != nil {
			return fmt.Errorf("appendonly: %w", err)
		}
	}
	begun := time.Now()
	for {
		p, err := c.info(ctx, "persistence")
		if err != nil {
			return err
		}
		running := p["aof_rewrite_in_progress"] == "1" || p["aof_rewrite_scheduled"] == "1"
		switch waited := time.Since(begun); {
		case !running && p["aof_last_bgrewrite_status"] != "ok" && !asked:
			// That was earlier: what was in the way, such as a full disk, may be gone.
			if _, err := c.send(ctx, "BGREWRITEAOF"); err != nil {
				return fmt.Errorf("appendonly: %w", err)
			}
			asked = true
			continue
		case !running && p["aof_last_bgrewrite_status"] != "ok":
			return fmt.Errorf("appendonly: writing the file ended with %s\nhint: the server's log says why (journalctl -u and /var/log); a full disk or too little memory for a fork", p["aof_last_bgrewrite_status"])
		case !running && p["aof_enabled"] == "1":
			return nil
		case waited > readyWait:
			return fmt.Errorf("appendonly: still writing the file after %s\nhint: run the same command again when INFO persistence says aof_rewrite_in_progress:0", waited.Round(time.Second))
		case waited > time.Second:
			step.Say(ctx, "redis: writing the append-only file, %s", waited.Round(time.Second))
		}
		if err := host.Sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

// foreign says what others have stored in the server, "" for nothing.
func (c client) foreign(ctx context.Context) (string, error) {
	space, err := c.info(ctx, "keyspace")
	if err != nil {
		return "", err
	}
	for db, stats := range space {
		if strings.HasPrefix(db, "db") && db != "db0" {
			return fmt.Sprintf("keys in database %s (%s)", db[2:], stats), nil
		}
	}
	cursor := "0"
	for range 64 { // a sample of some thousand keys
		replies, err := c.send(ctx, "SCAN "+cursor+" COUNT 500")
		if err != nil {
			return "", err
		}
		lines := strings.Split(replies[0], "\n")
		for _, key := range lines[1:] {
			if key != "" && !strings.HasPrefix(key, "urifilter:") {
				return "keys such as " + strconv.Quote(shorten(key)), nil
			}
		}
		if cursor = strings.TrimSpace(lines[0]); cursor == "0" {
			break
		}
	}
	return "", nil
}

func shorten(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}
