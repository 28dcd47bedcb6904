package rollout

import (
	"github.com/cr-clawer/urifilter/provision/schedule"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Schedule returns the schedule of the program's job, of a kind; a job that writes back has
// none where there is no archive.
func (i *Instance) Schedule(kind string) (*schedule.Schedule, error) {
	if i.Program.BitMaps && !i.Archived() {
		kind = schedule.None
	}
	return schedule.New(schedule.Options{
		Program: i.Program.Program, Kind: kind, When: i.run.Site.Inventory.Schedule.When, User: i.user(), Group: i.group(),
		Shared: i.run.Site.Shares(i.Host, i.Program),
	})
}

// Timetable returns the steps of a schedule of that kind; none for a program without a job.
func (i *Instance) Timetable(kind string) ([]step.Step, error) {
	if i.Program.Job == nil {
		return nil, nil
	}
	s, err := i.Schedule(kind)
	if err != nil {
		return nil, err
	}
	packages, err := i.run.Site.Packages(i.Host)
	return s.Steps(packages), err
}
