package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// tryCrashes: a daemon that is killed or hangs is restarted by systemd, and still remembers
// everything that it has acknowledged; one that cannot start is visibly failed, and can be
// started once the cause is fixed.
func tryCrashes(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "one", Release: "trixie"}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
	})
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)
	crawler := l.Crawler("one", 8000, token)
	l.Must(t, "deploy")
	if got := l.Sh(t, "one", "systemctl show urifilter -p WatchdogUSec -p TimeoutAbortUSec"); got != "TimeoutAbortUSec=10s\nWatchdogUSec=30s" {
		t.Errorf("the unit has\n%s", got)
	}
	// An administrator may change the times of the watchdog; here that saves half a minute.
	l.Sh(t, "one", `mkdir -p /etc/systemd/system/urifilter.service.d
printf '[Service]\nWatchdogSec=10s\nTimeoutAbortSec=2s\n' >/etc/systemd/system/urifilter.service.d/local.conf
systemctl daemon-reload && systemctl restart urifilter`)
	process := func() string { return l.Sh(t, "one", "systemctl show urifilter -p MainPID --value") }

	for i, signal := range []string{"KILL", "STOP"} {
		item := "https://example.com/before-" + signal
		crawler.Filter(t, item)
		pid, began := process(), time.Now()
		l.Sh(t, "one", "kill -"+signal+" "+pid+`; while grep -q '^State:[[:blank:]]*[RSDI]' /proc/`+pid+`/status 2>/dev/null; do sleep 0.01; done`)
		// A client that calls meanwhile waits, and gets an answer. systemd continues a stopped
		// process when it aborts it: that process may accept a connection in its last moment,
		// which is then cut.
		fresh, err := crawler.Ask(item)
		if signal == "STOP" && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
			fresh, err = crawler.Ask(item)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(fresh) != 0 {
			t.Errorf("SIG%s: %s is forgotten", signal, item)
		}
		t.Logf("SIG%s: a call was answered after %s", signal, time.Since(began).Round(time.Millisecond))
		// The process that systemd aborts may even have answered, so the test waits for the next
		// one.
		wanted := fmt.Sprint(i + 1)
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			restarts, now := l.Sh(t, "one", "systemctl show urifilter -p NRestarts --value"), process()
			if restarts == wanted && now != pid && now != "0" {
				break
			}
			if restarts > wanted || time.Now().After(end) {
				t.Fatalf("SIG%s: %s restarts of process %s, which is %s now; want %s and another one", signal, restarts, pid, now, wanted)
			}
		}
	}

	tryTop(t, l, crawler)

	// The settings on the host are broken and the daemon dies: a crash loop.
	l.Sh(t, "one", `cp -a /etc/urifilter/urifilter.yaml /root/saved && echo 'no_such_key: 1' >>/etc/urifilter/urifilter.yaml && kill -KILL `+process())
	r := l.Mage(t, "urifilter:status")
	want(t, r, fleet.CodeFailed, "crash loop", "go tool mage urifilter:logs -hosts=one says why")
	want(t, l.Mage(t, "urifilter:top"), fleet.CodeFailed, "go tool mage urifilter:logs -hosts=one says why", "the daemon of one is not ready")
	for end := time.Now().Add(3 * time.Minute); l.Sh(t, "one", "systemctl is-failed urifilter || :") != "failed"; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the crash loop does not end")
		}
	}
	r = l.Mage(t, "urifilter:status")
	want(t, r, fleet.CodeFailed, "exit-code", "go tool mage urifilter:logs -hosts=one says why")
	if !regexp.MustCompile(`(?m)^one +failed +-`).MatchString(r.Stdout) {
		t.Errorf("status does not say failed:\n%s", r.Stdout)
	}
	if got := l.Sh(t, "one", "systemctl is-active urifilter-retry.timer"); got != "active" {
		t.Errorf("the timer for the next try is %s", got)
	}
	want(t, l.Must(t, "urifilter:logs", "-lines=20"), 0, "no_such_key")
	// A release that crashes is not one to roll back to.
	want(t, l.Mage(t, "urifilter:get", "-dryRun", "-binary="+l.Another(t, "second")), 0, "as not healthy: its daemon crashes")
	// Starting it does not help, and says why; once the settings are mended, it does.
	want(t, l.Mage(t, "urifilter:start"), fleet.CodeFailed, "/etc/urifilter/urifilter.yaml:", "no_such_key: unknown key")
	l.Sh(t, "one", "mv /root/saved /etc/urifilter/urifilter.yaml")
	l.Must(t, "urifilter:start")
	want(t, l.Must(t, "urifilter:status"), 0, "active")
	if fresh := crawler.Filter(t, "https://example.com/before-KILL"); len(fresh) != 0 {
		t.Error("items are forgotten")
	}
}
