package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/master"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// What the command shows about a program that downloads.
func TestTop(t *testing.T) {
	s := newSite(t)
	p := start(t)
	job := write(t, p.dir, "news.yaml", "name: news\nsetting: {delay: 0s, concurrency: 20, dispatch: 1000, max_download_times: 1}\n")
	p.must("", "job", "add", job)
	p.must(s.pages(20), "job", "uris", "news")
	p.settled("news", 20)
	var a activity
	if err := json.Unmarshal([]byte(p.must("", "top", "--once", "--interval", "0", "--json")), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Jobs) != 1 || a.Jobs[0].Tasks["done"] != 18 || a.Jobs[0].Tasks["failed"] != 2 || a.Jobs[0].Rate != nil ||
		len(a.Workers) != 1 || a.Workers[0].Shards != 256 || a.Dispatcher == "" || len(a.Errors) != 1 || a.Errors[0] != (master.AttemptErrors{Job: "news", Reason: "status", Attempts: 2}) {
		t.Errorf("%+v", a)
	}
	out := p.must("", "top", "--once", "--interval", "10ms")
	for _, want := range []string{"JOB   STATUS  WAITING  READY  RUNNING  DONE  FAILED  ENDED/S  LEFT\nnews  on            0      0        0    18       2      0.0     -\n", "WORKER", "ATTEMPTS  REASON  JOB\n       2  status  news\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if code, _, errOut := p.run("", "top", "--interval", "0"); code != 2 || !strings.Contains(errOut, "want more than 0") {
		t.Errorf("--interval 0: %d, %s", code, errOut)
	}
	p.Kill()
	if code, _, errOut := p.run("", "top", "--once"); code != 1 || !strings.Contains(errOut, "is it running?") {
		t.Errorf("without a master: %d, %s", code, errOut)
	}
}

// Polls follow each other until the user has seen enough; rates, time left and errors cover the time in between.
func TestTopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 9*time.Second)
		defer stop()
		polls := 0
		var out bytes.Buffer
		w := command.Watching{Interval: 2 * time.Second, Terminal: true}
		poll := func(_ context.Context, since time.Time) (activity, error) {
			if polls++; polls == 3 {
				return activity{}, errors.New("it is being restarted")
			}
			want := began.Add(time.Duration(polls-2) * w.Interval)
			switch polls {
			case 1:
				want = time.Time{}
			case 4:
				want = want.Add(-w.Interval)
			}
			if !since.Equal(want) {
				t.Errorf("poll %d: errors since %s, want %s", polls, since, want)
			}
			ended := int(time.Since(began).Seconds()) * 10
			hosts := []master.ActiveHost{{Host: "slow.example", HandedOut: 34, Failed: 2}, {Host: "a.example", HandedOut: 3}}
			return activity{
				Activity: master.Activity{Time: time.Now(), Since: since, Workers: []master.ActiveWorker{{Name: "w1", Shards: 256}},
					Errors: []master.AttemptErrors{{Job: "news", Reason: "dns", Attempts: polls}, {Job: "news", Reason: "timeout", Attempts: 2}}},
				Jobs: []activeJob{{ActiveJob: master.ActiveJob{Name: "news", Status: "on", Tasks: map[string]int{"waiting": 1000 - ended, "done": ended}, Hosts: hosts}}},
			}, nil
		}
		if err := command.Watch(ctx, &out, w, following(poll), activity.write); err != nil || polls != 5 {
			t.Errorf("%v after %d polls", err, polls)
		}
		screens := strings.Split(out.String(), "\x1b[H\x1b[2J")[1:]
		if len(screens) != 4 || !strings.Contains(screens[1], "no answer: it is being restarted\n") {
			t.Fatalf("%d screens:\n%s", len(screens), out.String())
		}
		if !strings.Contains(screens[0], "dispatcher: none: nothing is handed out\n") || !strings.Contains(screens[0], "     -     -\n") {
			t.Errorf("the first:\n%s", screens[0])
		}
		if !strings.Contains(screens[0], "HOST          HANDED OUT  FAILED  JOB\nslow.example          34       2  news\na.example") {
			t.Errorf("hosts are not in the first:\n%s", screens[0])
		}
		if last := screens[3]; !strings.Contains(last, "10.0  1m32s\n") || !strings.Contains(last, "      12  dns      news\n       8  timeout  news\n") {
			t.Errorf("the last:\n%s", last)
		}
	})
	none := func(context.Context) (activity, error) { return activity{}, nil }
	if err := command.Watch(t.Context(), failingWriter{}, command.Watching{Once: true}, none, activity.write); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an output that is closed: %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
