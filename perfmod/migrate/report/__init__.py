"""What people see of a campaign, all made from `CampaignRow`: progress, status, a page, tables."""
