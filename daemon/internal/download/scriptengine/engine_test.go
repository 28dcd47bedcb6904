//go:build linux

package scriptengine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
)

const shop = `<!DOCTYPE html><title>Shop</title>
<ul><li class="item" data-id="7">A <b>red</b>  shoe <script>x()</script><a href="/shoe?id=7#top">more</a></li>
<li class="item">A hat<a href="hat">more</a></li></ul>
<a href="mailto:a@b.example">mail</a> <a href="javascript:x()">js</a> <a href="/shoe?id=7">again</a>`

func serveShop(w http.ResponseWriter, q *http.Request) {
	switch q.URL.Path {
	case "/start":
		w.Header().Set("X-Shop", "open")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, shop)
	case "/api":
		body, _ := io.ReadAll(q.Body)
		_, _ = fmt.Fprintf(w, `{"method": %q, "body": %q, "type": %q, "cookie": %q}`, q.Method, body, q.Header.Get("Content-Type"), q.Header.Get("Cookie"))
	case "/latin":
		w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
		_, _ = w.Write([]byte("caf\xe9"))
	case "/binary":
		_, _ = w.Write([]byte{0, 255, 254})
	case "/busy":
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	case "/gone":
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, "was here")
	case "/moved":
		http.Redirect(w, q, "/latin", http.StatusFound)
	}
}

func TestRecordsLinksAndPage(t *testing.T) {
	r := newRig(t, serveShop)
	page := r.good(`
page = fetch(task.uri)
for item in html.select(page, "li.item"):
    emit({"id": item.attrs.get("data-id"), "text": item.text, "name": item.name, "bold": [b.html for b in item.select("b")]})
follow([a.attrs["href"] for a in html.select(page.text, "a")])
emit([page.status, page.headers["x-shop"], page.url == task.uri, task.job, task.attempt, type(page.body)])
log("items", 2, {"a": 1})
print("printed")
return page
`)
	want := `{"bold":["\u003cb\u003ered\u003c/b\u003e"],"id":"7","name":"li","text":"A red shoe more"}
{"bold":[],"id":null,"name":"li","text":"A hatmore"}
[200,"open",true,"test",2,"bytes"]
`
	if got := strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(string(page.Records)); got != want {
		t.Errorf("records: %s, want %s", got, want)
	}
	if textOf(t, page) != shop || page.Status != 200 || page.URI != r.URL+"/start" || page.Header.Get("X-Shop") != "open" {
		t.Errorf("page: %+v", page.Result)
	}
	if got := strings.Join(r.followed, " "); got != "/shoe?id=7 /hat" {
		t.Errorf("followed %q", got)
	}
	if text := r.log.String(); !strings.Contains(text, `text="items 2 {\"a\": 1}"`) || !strings.Contains(text, "text=printed") {
		t.Errorf("log: %s", text)
	}
}

// If no page is returned, no body is stored.
func TestRecordsAlone(t *testing.T) {
	r := newRig(t, serveShop)
	page := r.good(`
answer = fetch(task.uri.replace("/start", "/api"), method = "post", headers = {"Content-Type": "application/json"}, body = json.encode({"a": [1]}))
emit(json.decode(answer.text))
emit(fetch(task.uri.replace("start", "moved")).text)
emit(len(fetch(task.uri.replace("start", "binary")).body))
`, func(s *download.Setting) { s.Cookie = "a=b" })
	want := `{"body":"{\"a\":[1]}","cookie":"a=b","method":"POST","type":"application/json"}` + "\n" + `"café"` + "\n3\n"
	if string(page.Records) != want || page.Body != nil {
		t.Errorf("records: %s, want %s; body %v", page.Records, want, page.Body)
	}
	// The first request has its turn, each further one waits for another, and so does a redirect.
	if got := strings.Join(r.turns, " "); r.firsts != 1 || got != "/moved /latin /binary" {
		t.Errorf("%d first, turns %q", r.firsts, got)
	}
	if page := r.good(`emit(1)`); page.Status != 0 || page.URI != r.URL+"/start" || string(page.Records) != "1\n" {
		t.Errorf("without a request: %+v", page.Result)
	}
}

func TestStatuses(t *testing.T) {
	r := newRig(t, serveShop)
	_, failure := r.run(`fetch(task.uri.replace("start", "busy"))`)
	if failure == nil || failure.Status != 429 || !failure.Crowded || failure.After.Seconds() != 7 || failure.Permanent {
		t.Errorf("busy: %+v", failure)
	}
	if _, failure := r.run(`fetch(task.uri.replace("start", "gone"))`); failure == nil || failure.Status != 410 || !failure.Permanent {
		t.Errorf("gone: %+v", failure)
	}
	page := r.good(`
gone = fetch(task.uri.replace("start", "gone"), any_status = True)
emit([gone.status, gone.text, fetch(task.uri.replace("start", "busy"), any_status = True).status])
`)
	if string(page.Records) != `[410,"was here",429]`+"\n" || !page.Crowded {
		t.Errorf("any status: %s, %+v", page.Records, page)
	}
}

// Faults of code are reported with their line and column.
func TestFaults(t *testing.T) {
	r := newRig(t, serveShop)
	for body, want := range map[string]string{
		`x = 1` + "\n" + `x = x // 0`:          "code: job.star:3:11: floored division by zero",
		`fail("no", "items", 3)`:               "code: job.star:2:9: no items 3",
		`fetch("ftp://a.example/")`:            `code: job.star:2:10: fetch: "ftp://a.example/": `,
		`fetch(task.uri, metod = "GET")`:       `fetch: unexpected keyword argument "metod" (did you mean method?)`,
		`fetch(task.uri, headers = {1: 2})`:    "fetch: headers: 1: want a text for a text",
		`emit(fetch)`:                          "job.star:2:9: json.encode: cannot encode builtin_function_or_method as JSON",
		`follow(1)`:                            "job.star:2:11: follow: got int, want a text or a list of texts",
		`html.select("<p>", "p[")`:             `html.select: css "p["`,
		`html.select(fetch(task.uri), "p")[0]`: "job.star:2:38: index 0 out of range: empty list",
		`return 1`:                             "job.star: download returned a int: want a page that fetch has returned, or None",
		`json.decode("[1,")`:                   "job.star:2:16: json.decode: at offset 3, unexpected end of file",
		`html.select("<div>" * 600, "a")`:      "exceeds",
	} {
		if _, failure := r.run(body); failure == nil || failure.Permanent || !strings.Contains(failure.Reason, want) {
			t.Errorf("%s: got %+v, want %q", body, failure, want)
		}
	}
	if _, failure := r.run(`fail("for ever", permanent = True)`); failure == nil || !failure.Permanent || failure.Reason != "code: job.star:2:9: for ever" {
		t.Errorf("permanent: %+v", failure)
	}
	if _, failure := r.runAll("x = [1][2]\ndef download(task): pass\n"); failure == nil || !strings.Contains(failure.Reason, "job.star:1:8: list index 2 out of range") {
		t.Errorf("at the top level: %+v", failure)
	}
	if _, failure := r.runAll("def download(task): nobody()\n"); failure == nil || !failure.Permanent || !strings.Contains(failure.Reason, "job.star:1:21: undefined: nobody") {
		t.Errorf("code that was not checked: %+v", failure)
	}
	if len(r.followed) > 0 {
		t.Errorf("followed %q of attempts that failed", r.followed)
	}
}

// Hosts of other workers are not called, and see no cookie of the job.
func TestOtherHosts(t *testing.T) {
	r := newRig(t, serveShop)
	other := strings.Replace(r.URL, "127.0.0.1", "localhost", 1)
	secret := func(s *download.Setting) {
		s.Cookie, s.Headers = "secret=1", map[string]string{"Content-Type": "secret"}
	}
	page := r.good(fmt.Sprintf("emit(json.decode(fetch(%q).text))", other+"/api"), secret)
	if string(page.Records) != `{"body":"","cookie":"","method":"GET","type":""}`+"\n" {
		t.Errorf("records: %s", page.Records)
	}
	if got := strings.Join(r.turns, " "); got != other+"/api" || r.firsts != 0 {
		t.Errorf("turns %q, %d first", got, r.firsts)
	}
	r.foreign = true
	asked := len(r.asked)
	if _, failure := r.run(fmt.Sprintf("fetch(%q)", other+"/api")); failure == nil || !strings.HasPrefix(failure.Reason, "other_worker: ") || failure.Permanent {
		t.Errorf("a host of another worker: %+v", failure)
	}
	if len(r.asked) != asked {
		t.Error("the host was called")
	}
}

// The names that code is checked against are those that it has.
func TestNames(t *testing.T) {
	r := newRig(t, nil)
	page := r.good("emit([type(x) for x in [" + strings.Join(script.Names(download.ScriptDownload), ", ") + "]])")
	if strings.Count(string(page.Records), `"`) != 2*len(script.Names(download.ScriptDownload)) {
		t.Errorf("records: %s", page.Records)
	}
}

// Code that waits for its host, or for a page, leaves its place to other code, and has one again when it goes on.
func TestWaitingCodeHoldsNoPlace(t *testing.T) {
	r := newRig(t, serveShop, func(o *Options) { o.Processes = 1 })
	const code = "def download(task):\n    emit(fetch(task.uri).status)\n"
	const waiters = 3
	waiting, come := make(chan struct{}, waiters), make(chan struct{})
	ended := make(chan error, waiters)
	for range waiters {
		w := r.work(code)
		w.First = func(ctx context.Context) error {
			waiting <- struct{}{}
			select {
			case <-come:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		go func() {
			page, err := r.engine.Download(t.Context(), w)
			if err == nil && string(page.Records) != "200\n" {
				err = fmt.Errorf("emitted %q", page.Records)
			}
			ended <- err
		}()
	}
	for range waiters {
		<-waiting // all of them, although there is one place
	}
	if page, failure := r.run("emit(1)"); failure != nil || string(page.Records) != "1\n" {
		t.Errorf("other code meanwhile: %+v", failure)
	}
	close(come)
	for range waiters {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := len(r.engine.places); n != 0 {
		t.Errorf("%d places are taken at the end", n)
	}
}
