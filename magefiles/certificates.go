//go:build mage

package main

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision"
)

// Certificates are those with which daemons connect to Redis and the archive.
type Certificates mg.Namespace

// Renew renews all certificates of the toolkit's authority; deploy itself renews those that expire soon.
//
//	go tool mage certificates:renew
func (Certificates) Renew(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	keepGoing *bool, // go on with other hosts after one has failed
	parallel *int, // how many hosts to work on at once
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, keepGoing: keepGoing, parallel: parallel, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.RenewCertificates(ctx) })
}
