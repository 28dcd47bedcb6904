package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// pythonClient uses Python's http.client, which repeats nothing; after a silence the script
// itself repeats the call. It writes a line for each call: the time that it took, and what was
// new or what went wrong.
const pythonClient = `
import http.client, json, sys, time
host, token, prefix = sys.argv[1:]
conn = http.client.HTTPConnection(host, timeout=60)
n = 0
answered = time.monotonic()
while True:
    items = ["https://load.example/%s/%d/%d" % (prefix, n, i) for i in range(10)]
    began = time.monotonic()
    fresh, fault = [], ""
    used = conn.sock is not None
    def call():
        conn.request("POST", "/api/v1/filter", json.dumps({"filter_typeid": "uri", "uri_list": items}),
                     {"Content-Type": "application/json", "Authorization": "Bearer " + token})
        return conn.getresponse()
    try:
        try:
            res = call()
        except (http.client.RemoteDisconnected, BrokenPipeError):
            if not used or time.monotonic() - answered < 2:
                raise
            conn.close()
            res = call()
        body = res.read()
        if res.status == 200:
            fresh = json.loads(body)["uri_list"]
        else:
            fault = "%d %s" % (res.status, body)
    except Exception as e:
        fault = repr(e)
        conn.close()
    answered = time.monotonic()
    print(json.dumps({"items": items, "fresh": fresh, "fault": fault, "took": time.monotonic() - began}), flush=True)
    n += 1
    time.sleep(0.05)
`

// python runs that client. It is killed between two calls, so it has made no call that it has
// not written.
func (l *load) python(ctx context.Context, t *testing.T, prefix string) {
	t.Helper()
	cmd := exec.Command("python3", "-c", pythonClient, strings.TrimPrefix(l.crawler.URL, "http://"), l.crawler.Token, prefix)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.ended.Go(func() {
		lines := json.NewDecoder(out)
		for ctx.Err() == nil {
			var call struct {
				Items, Fresh []string
				Fault        string
				Took         float64
			}
			var err error
			if err = lines.Decode(&call); err == nil {
				if call.Fault != "" {
					err = fmt.Errorf("%s", call.Fault)
				} else if !slices.Equal(call.Fresh, call.Items) {
					err = fmt.Errorf("new are %d of %d items that nobody had asked for", len(call.Fresh), len(call.Items))
				}
			}
			l.count("Python", prefix, call.Fresh, time.Duration(call.Took*float64(time.Second)), err)
			if call.Items == nil {
				break // the client has ended by itself
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}
