package node

import (
	"context"
	"errors"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// parsing is an engine for jobs whose script parse is to run on each page.
type parsing struct {
	worker.Engine
	intake *intake.Intake
	added  func() // is called when there is a task to hand out
}

// Download makes a task of the run just before its page is stored. After a crash in between, the
// run finds no page yet and waits, and the repeated attempt finds that the run exists.
func (p parsing) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	page, err := p.Engine.Download(ctx, w)
	parse := w.Job.Setting.Parse
	if err != nil || parse.Code.Text == "" || w.Task.Script() != download.ScriptDownload {
		return page, err
	}
	if _, err := p.intake.AddThrough(ctx, w.Job, []string{parse.Filter}, []download.NewTask{download.ParseRun(w.Task)}); err != nil {
		if page.Body != nil {
			err = errors.Join(err, page.Body.Close())
		}
		return worker.Page{}, &worker.Failure{Reason: "parse: " + err.Error()}
	}
	p.added()
	return page, nil
}
