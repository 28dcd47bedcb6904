//go:build unix

package chaos

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cr-clawer/urifilter/client"
)

//go:embed caller.py
var callerSource string

// pythonAsker is the Python client, in a process of its own.
type pythonAsker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr *os.File
}

// newPython starts the Python client; module is the folder of this module.
func newPython(module, dir, addresses string) (*pythonAsker, error) {
	stderr, err := os.Create(filepath.Join(dir, "python.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("python3", "-c", callerSource, addresses)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(module, "python", "src"), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a := &pythonAsker{cmd: cmd, in: in, out: bufio.NewScanner(out), stderr: stderr}
	a.out.Buffer(nil, 64<<20)
	return a, cmd.Start()
}

func (a *pythonAsker) exchange(filter string, items []string, check bool, into any) error {
	ask, err := json.Marshal(map[string]any{"filter": filter, "items": items, "check": check})
	if err != nil {
		return err
	}
	if _, err := a.in.Write(append(ask, '\n')); err != nil {
		return err
	}
	if !a.out.Scan() {
		text, _ := os.ReadFile(a.stderr.Name())
		return fmt.Errorf("the python caller has ended: %w\n%s", io.ErrUnexpectedEOF, text)
	}
	var told struct {
		Answer  json.RawMessage
		Code    string
		InDoubt bool `json:"in_doubt"`
	}
	if err := json.Unmarshal(a.out.Bytes(), &told); err != nil {
		return err
	}
	if told.Answer == nil {
		return &toldError{told.Code, told.InDoubt}
	}
	return json.Unmarshal(told.Answer, into)
}

func (a *pythonAsker) Filter(_ context.Context, filter string, items []string, _ ...client.CallOption) (fresh []string, err error) {
	err = a.exchange(filter, items, false, &fresh)
	return fresh, err
}

func (a *pythonAsker) Check(_ context.Context, filter string, items []string, _ ...client.CallOption) (fresh []bool, err error) {
	err = a.exchange(filter, items, true, &fresh)
	return fresh, err
}

// URL is not known: the client does not say which daemon it asked.
func (a *pythonAsker) URL() string { return "" }

func (a *pythonAsker) Close() {
	_ = a.in.Close()
	_ = a.cmd.Wait()
	_ = a.stderr.Close()
}
