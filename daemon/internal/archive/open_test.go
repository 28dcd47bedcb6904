package archive

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// refused returns the error of Open, which takes all of the timeout. On a busy machine the driver may not
// get an answer of the server in that time, so that the error does not have the reason: unless it is
// right, Open is called again with a longer one.
func refused(t *testing.T, o Options, right func(error) bool) error {
	t.Helper()
	for o.Timeout = 3 * time.Second; ; o.Timeout *= 4 {
		start := time.Now()
		a, err := Open(context.Background(), o)
		if err == nil {
			_ = a.Close(context.Background())
			t.Fatalf("opened %s", o.URI)
		}
		if took := time.Since(start); took > o.Timeout+27*time.Second {
			t.Errorf("took %v", took)
		}
		if right(err) || o.Timeout > time.Minute {
			return err
		}
	}
}

// tryOpen expects an error, that does not tell the password.
func tryOpen(t *testing.T, uri string, right func(error) bool) {
	t.Helper()
	err := refused(t, Options{URI: uri}, right)
	if !right(err) {
		t.Errorf("%s: another error: %v", uri, err)
	}
	if strings.Contains(err.Error(), "tops3cret") {
		t.Errorf("tells the password: %v", err)
	}
}

// wraps returns a function that reports whether an error wraps another.
func wraps(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

// answer is a server that says one thing to everybody.
func answer(t *testing.T, text string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := conn.Read(make([]byte, 4096)); err != nil {
					return
				}
				if text == "" {
					_, _ = io.Copy(io.Discard, conn) // until the other hangs up
					return
				}
				_, _ = conn.Write([]byte(text)) // a client that has gone has seen enough
			}()
		}
	}()
	return l.Addr().String()
}

func TestWrongServer(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, c := range map[string]struct {
		addr string
		want error
	}{
		"nobody listens":      {testserver.Free(t), ErrUnreachable},
		"no such host":        {"no.such.host.invalid:27017", ErrUnreachable},
		"takes but is silent": {answer(t, ""), ErrUnreachable},
		"HTTP":                {web.Listener.Addr().String(), ErrNotMongoDB},
		"Redis":               {answer(t, "-ERR unknown command 'HELLO'\r\n"), ErrNotMongoDB},
		"hangs up":            {answer(t, "+"), ErrNotMongoDB},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tryOpen(t, "mongodb://u:tops3cret@"+c.addr+"/", func(err error) bool {
				return errors.Is(err, c.want) && strings.Contains(err.Error(), "archive "+c.addr)
			})
		})
	}
}

func TestMalformedURI(t *testing.T) {
	for _, uri := range []string{
		"", "localhost", "http://u:tops3cret@h/", "mongodb://", "mongodb://u:tops3cret@",
		"mongodb://u:tops3cret@x@h/", "mongodb://u:tops3cret/%zz@h/", "mongodb://u:tops3cret@h:x/", "mongodb://h/?tls=tops3cret",
	} {
		tryOpen(t, uri, func(err error) bool { return strings.Contains(err.Error(), "malformed") })
	}
}

func TestCredentials(t *testing.T) {
	s := mongotest.New(t, mongotest.Options{User: "archivist", Password: "tops3cret"})
	r := newRig(t, s.URI())
	r.write(r.open(), "uri", newSet(t, header(1)))
	tryOpen(t, strings.Replace(s.URI(), "tops3cret", "wrong", 1), wraps(ErrCredentials))
	tryOpen(t, strings.Replace(s.URI(), "archivist", "nobody", 1), wraps(ErrCredentials))
	tryOpen(t, strings.Replace(s.URI(), "archivist:tops3cret@", "", 1), wraps(ErrRights))
}

// TestRights has the errors of a server for a user that may only read, which FerretDB
// does not know.
func TestRights(t *testing.T) {
	err := explain(context.Background(), mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "not authorized on urifilter to execute command"})
	if !errors.Is(err, ErrRights) || !strings.Contains(err.Error(), "readWrite") {
		t.Errorf("%v, want ErrRights and the role", err)
	}
}

func TestServerGoesAndComes(t *testing.T) {
	t.Parallel()
	s := mongotest.New(t, mongotest.Options{})
	r := newRig(t, s.URI())
	ctx := context.Background()
	a := r.open(func(o *Options) { o.Timeout = 15 * time.Second }) // calls that ask for the time wait for all of it
	h := header(1)
	src := newSet(t, h).add(key(h, 0, 1))
	v := r.write(a, "uri", src)
	if err := a.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	a.opt.Timeout = 100 * time.Millisecond // nothing is there that could be too slow for it
	var calls sync.WaitGroup
	for name, call := range map[string]func() error{
		"Ping":        func() error { return a.Ping(ctx) },
		"Latest":      func() error { _, err := a.Latest(ctx, "uri"); return err },
		"Versions":    func() error { _, err := a.Versions(ctx, ""); return err },
		"Writeback":   func() error { _, err := a.Writeback(ctx, spec("uri"), src, nil); return err },
		"Restore":     func() error { return a.Restore(ctx, v, newSet(t, h), nil) },
		"Verify":      func() error { return a.Verify(ctx, v, nil) },
		"Held":        func() error { return a.Held(ctx, "uri") },
		"RecordError": func() error { return a.RecordError(ctx, 1, "x") },
	} {
		calls.Go(func() {
			if err := call(); !errors.Is(err, ErrUnreachable) {
				t.Errorf("%s: %v, want ErrUnreachable", name, err)
			}
		})
	}
	calls.Wait()
	s.Restart()
	a.opt.Timeout = r.opt.Timeout
	for end := time.Now().Add(2 * time.Minute); a.Ping(ctx) != nil && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // the driver looks for the server now and then
	}
	b := r.open() // with the usual time
	got, _ := r.restored(b, "uri")
	sameContent(t, got, src)
	if err := a.Ping(ctx); err != nil {
		t.Error(err)
	}
	r.write(b, "uri", src.add(key(h, 0, 2)))
}

// TestServerDiesInTheMiddle kills the server before each step of a writeback.
func TestServerDiesInTheMiddle(t *testing.T) {
	for _, label := range []string{"latest", "download", "upload", "file", "verify", "switch"} {
		t.Run(label, func(t *testing.T) {
			t.Parallel() // each waits for a server that does not answer
			s := mongotest.New(t, mongotest.Options{})
			r := newRig(t, s.URI())
			h := header(1)
			all := newSet(t, h).add(key(h, 0, 1))
			r.write(r.open(), "uri", all)
			a := r.open(func(o *Options) {
				o.Timeout = 5 * time.Second
				o.Fault = func(at string) error {
					if at == label {
						s.Kill()
					}
					return nil
				}
			})
			if _, err := a.Writeback(context.Background(), spec("uri"), newSet(t, h).add(key(h, 0, 100)), nil); !errors.Is(err, ErrUnreachable) {
				t.Errorf("%v, want ErrUnreachable", err)
			}
			s.Restart()
			b := r.open()
			got, _ := r.restored(b, "uri")
			sameContent(t, got, all)
			r.expireLease(b)
			r.write(b, "uri", all.add(key(h, 0, 200)))
			got, _ = r.restored(b, "uri")
			sameContent(t, got, all)
			r.noOrphans(b)
		})
	}
}

func TestReplicaSet(t *testing.T) {
	r := newRig(t, mongotest.New(t, mongotest.Options{ReplicaSet: "rs0"}).URI())
	a := r.open()
	h := header(1)
	src := newSet(t, h).add(key(h, 0, 1))
	r.write(a, "uri", src)
	r.write(a, "uri", src.add(key(h, 0, 2)))
	got, _ := r.restored(a, "uri")
	sameContent(t, got, src)
	r.noOrphans(a)
}

func TestRecordErrorIsBounded(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		a := r.open(as("here:1"))
		var docs []any
		for i := range errorsKept + errorsSlack {
			docs = append(docs, errorDoc{ID: bson.NewObjectID(), Filter: i})
		}
		if _, err := a.errors.InsertMany(ctx, docs); err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("é", reasonLength)
		if err := a.RecordError(ctx, 7, "x"+long); err != nil {
			t.Fatal(err)
		}
		cursor, err := a.errors.Find(ctx, bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		var kept []errorDoc
		if err := cursor.All(ctx, &kept); err != nil {
			t.Fatal(err)
		}
		if len(kept) != errorsKept {
			t.Fatalf("%d kept, want %d", len(kept), errorsKept)
		}
		if kept[0].Filter != errorsSlack+1 {
			t.Errorf("oldest kept is number %d, want %d", kept[0].Filter, errorsSlack+1)
		}
		last := kept[len(kept)-1]
		if last.Filter != 7 || last.Owner != "here:1" || time.Since(last.At) > time.Minute || last.Reason != "x"+long[:reasonLength-2] {
			t.Errorf("newest: %d %q %v %d bytes", last.Filter, last.Owner, last.At, len(last.Reason))
		}
	})
}
