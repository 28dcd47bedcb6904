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
	keepGoing *bool, // go on with other hosts after one has failed
	parallel *int, // how many hosts to work on at once
	change *string,
) error {
	return with(change, provision.Options{KeepGoing: valueOr(keepGoing, false), Parallel: valueOr(parallel, 0)}, func(t *provision.Toolkit) error { return t.RenewCertificates(ctx) })
}
