package calls

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pipes"
)

// slowly gives a text, one byte at a time.
type slowly struct {
	text  *strings.Reader
	pause time.Duration
}

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.text.Read(p[:1])
}

// askAs makes a call of a command with flags, in the bubble of a test, of a master that does as given.
func askAs(t *testing.T, body io.Reader, does http.HandlerFunc, flags ...string) (answer string, err error) {
	t.Helper()
	pipe := pipes.Listen()
	ctx, stop := context.WithCancel(t.Context())
	server := &http.Server{Handler: does, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = server.Serve(pipe) }()
	defer func() { _ = server.Shutdown(context.WithoutCancel(t.Context())) }() // which waits for its calls
	defer stop()
	transport := &http.Transport{DialContext: pipe.Dial}
	defer transport.CloseIdleConnections()
	cmd := Command(&cobra.Command{Use: "ask", SilenceErrors: true, SilenceUsage: true}, func(cmd *cobra.Command, m *Master, _ []string) error {
		m.client = &http.Client{Transport: transport}
		resp, err := m.Do(cmd.Context(), http.MethodPost, "/", "text/plain", body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		answer = string(text)
		return err
	})
	cmd.SetArgs(flags)
	err = cmd.ExecuteContext(t.Context())
	return answer, err
}

// A master that says nothing is given up, wherever it falls silent.
func TestSilentMaster(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, does := range map[string]http.HandlerFunc{
		"before the answer": hang,
		"within the answer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		},
		"within an error": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		},
	} {
		for _, body := range []string{"", strings.Repeat("x", 1<<20)} {
			synctest.Test(t, func(t *testing.T) {
				_, err := askAs(t, strings.NewReader(body), does, "--timeout", "7s")
				if err == nil || !strings.Contains(err.Error(), "silent for 7s; what was asked for may be done all the same\nhint: --timeout") {
					t.Errorf("%s, %d bytes sent: %v", name, len(body), err)
				}
			})
		}
	}
	if _, err := askAs(t, nil, hang, "--timeout", "0s"); err == nil || !strings.Contains(err.Error(), "--timeout 0s: want more than 0") {
		t.Errorf("--timeout 0s: %v", err)
	}
}

// A call may last as long as it moves, and the command may take its time.
func TestSlowCallsGoOn(t *testing.T) {
	const text = "a list that lasts long"
	echo := func(pause time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			read, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			for _, b := range read {
				time.Sleep(pause)
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
	for name, c := range map[string]struct{ input, output time.Duration }{
		"the input waits":  {input: time.Hour},
		"the answer comes": {output: 6 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			got, err := askAs(t, slowly{strings.NewReader(text), c.input}, echo(c.output), "--timeout", "7s")
			if err != nil || got != text {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		})
	}
}

// What a call is stopped for is its error, as before there was a time limit.
func TestStoppedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := errors.New("stopped")
		m := &Master{shown: "it", timeout: time.Second}
		_, quiet := m.listen(t.Context())
		quiet.cancel(stopped)
		if err := quiet.end(io.ErrUnexpectedEOF); err != stopped {
			t.Error(err)
		}
	})
}
