package idempotency

// FollowersPerScope is the bound that a test goes past.
const FollowersPerScope = followersPerScope
