package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestTheFirstCallsOfANewcomer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := processtest.Start(t, dir, nil)
	const call = `{"filter_typeid":1,"uri_list":["https://www.baidu.com/","http://www.2cto.com","https://www.baidu.com/"]}`
	if got, want := p.MustPost("/api/v1/filter", call, 200), `{"uri_list":["https://www.baidu.com/","http://www.2cto.com"],"total":3,"duplicates":1}`; strings.TrimSpace(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, path := range []string{"/api/v1/filter", "/cr-clawr/uri_filter/api/uri_filter"} {
		if got, want := p.MustPost(path, call, 200), `{"uri_list":[],"total":3,"duplicates":3}`; strings.TrimSpace(got) != want {
			t.Errorf("%s again: got %s, want %s", path, got, want)
		}
	}

	items := []any{"苹果", "127.0.0.1", "::1", 1, "1", 1.5, true, map[string]any{"a": 1, "b": []any{nil, "x"}}, []any{1, 2},
		strings.Repeat("长", 3400), "two\nlines", "two\r\nlines", "tab\there", `quote"and\back`}
	body := processtest.List(t, items...)
	var got client.FilterResult[any]
	if err := json.Unmarshal([]byte(p.MustPost("/api/v1/filter", body, 200)), &got); err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(items)
	have, _ := json.Marshal(got.URIList)
	if string(have) != string(want) {
		t.Errorf("new items: got %s, want %s", have, want)
	}

	// A second start continues: all items are known, and similar ones are not.
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, p.Log)
	}
	p = processtest.Start(t, dir, nil)
	if got := p.MustPost("/api/v1/filter", body, 200); !strings.Contains(got, `"uri_list":[],`) {
		t.Errorf("after a restart some are new: %s", got)
	}
	for body, want := range map[string]string{
		`{"filter_typeid":"uri","uri_list":[1.0, 1e0, "\u82f9\u679c", {"b":[null,"x"],"a":1.0}]}`: `{"uri_list":[],"total":4,"duplicates":4}`,
		`{"uri_list":["true","[1,2]",2], "filter_typeid":1}`:                                      `{"uri_list":["true","[1,2]",2],"total":3,"duplicates":0}`,
	} {
		if got := p.MustPost("/api/v1/filter", body, 200); strings.TrimSpace(got) != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// A stop during the loading of filters is no failure, either.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := processtest.Start(t, dir, nil)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, p.Log)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errOut strings.Builder
	if code := run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir}, nil, &out, &errOut); code != command.ExitOK {
		t.Errorf("exit code %d: %s%s", code, out.String(), errOut.String())
	}
}

func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := processtest.Start(t, dir, nil)
	p.MustPost("/api/v1/filter", processtest.List(t, "a", "b"), 200)

	t.Run("directory in use", func(t *testing.T) {
		processtest.MustContain(t, processtest.MustRefuse(t, nil, "--listen", "127.0.0.1:0", "--data-dir", dir), dir, fmt.Sprint("process ", p.Cmd.Process.Pid), "hint:")
	})
	t.Run("address in use", func(t *testing.T) {
		processtest.MustContain(t, processtest.MustRefuse(t, nil, "--listen", p.Addr, "--data-dir", t.TempDir()), p.Addr, "hint:")
	})
	t.Run("open address without tokens", func(t *testing.T) {
		processtest.MustContain(t, processtest.MustRefuse(t, nil, "--listen", "0.0.0.0:0", "--data-dir", t.TempDir()), "listen", "tokens_file")
	})
	t.Run("unknown setting", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "u.yaml")
		if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\ndurabilty: always\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		processtest.MustContain(t, processtest.MustRefuse(t, nil, "--config", file), file, "2", "durabilty")
	})
	t.Run("malformed variable", func(t *testing.T) {
		processtest.MustContain(t, processtest.MustRefuse(t, []string{"URIFILTER_LIMITS_ITEMS=many"}, "--data-dir", t.TempDir()), "URIFILTER_LIMITS_ITEMS", "many")
	})
	t.Run("directory that cannot be", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		processtest.MustContain(t, processtest.MustRefuse(t, nil, "--listen", "127.0.0.1:0", "--data-dir", file), file)
	})
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	t.Run("corrupt bit-map", func(t *testing.T) {
		bitmap := filepath.Join(dir, "filters", "1-uri", "bitmap")
		data, err := os.ReadFile(bitmap)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(bitmap, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p := processtest.Start(t, dir, nil)
		p.MustPost("/api/v1/filter", `{"filter_typeid":"uri","uri_list":["a"]}`, 503)
		p.MustPost("/api/v1/filter", `{"filter_typeid":"ip","uri_list":["a"]}`, 200)
		if err := p.End(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		processtest.MustContain(t, p.Log.String(), "QUARANTINE", bitmap, "stripe", "hint:", "verify")
		path := processtest.Binary(t)
		out, err := exec.Command(path, "verify", "--data-dir", dir).CombinedOutput()
		if err == nil {
			t.Error("verify finds nothing")
		}
		processtest.MustContain(t, string(out), "uri: DAMAGED", bitmap, "ip: sound")
	})
}
